/** What the client does on the wire: batching and repetition. */

import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer, type AddressInfo } from "node:net";
import { test } from "node:test";
import { ApiError, Client, ConnectionError, milliseconds } from "../src/index.js";
import { Fake, Server } from "../src/testing.js";

interface Sent {
  method: string;
  path: string;
  body: any;
  headers: Headers;
}

/** Answers from a list, and notes the requests. */
function scripted(...answers: (Error | { status: number; body: unknown; headers?: Record<string, string> })[]) {
  const sent: Sent[] = [];
  const fetch = (async (url: string, init: RequestInit) => {
    const body = init.body ? JSON.parse(init.body as string) : undefined;
    sent.push({ method: init.method!, path: new URL(url).pathname, body, headers: new Headers(init.headers) });
    const answer = answers.shift()!;
    if (answer instanceof Error) throw answer;
    return Response.json(answer.body, answer);
  }) as typeof globalThis.fetch;
  return { fetch, sent };
}

const CREATED = { id: "1", queue: "q", outcome: "created" };
const broken = (code: string) => new TypeError("fetch failed", { cause: Object.assign(new Error(code), { code }) });
const refused = (status: number, code: string, headers = {}) => ({ status, headers, body: { status, code, detail: "no" } });

test("a put is repeated with its idempotency key", async () => {
  const { fetch, sent } = scripted(broken("ECONNRESET"), refused(503, "outcome-unknown"), { status: 201, body: CREATED });
  const result = await new Client("http://x", { fetch }).put("q", { a: 1 });
  assert.equal(result.outcome, "created");
  assert.equal(sent.length, 3);
  assert.equal(new Set(sent.map((it) => it.headers.get("idempotency-key"))).size, 1);
});

test("Retry-After is honoured", async () => {
  const { fetch, sent } = scripted(refused(429, "rate-limited", { "retry-after": "7" }));
  const put = new Client("http://x", { fetch, retryFor: 5000 }).put("q", 1);
  await assert.rejects(put, (error: ApiError) => error.code === "rate-limited" && error.retryAfter === 7);
  assert.equal(sent.length, 1, "waiting 7 seconds exceeds retryFor");
});

test("Retry-After is waited for", async () => {
  const { fetch, sent } = scripted(refused(429, "rate-limited", { "retry-after": "1" }), { status: 201, body: CREATED });
  const start = performance.now();
  const result = await new Client("http://x", { fetch }).put("q", 1);
  const waited = performance.now() - start;
  assert.equal(result.outcome, "created");
  assert.equal(sent.length, 2);
  // A timer of Node may fire up to a millisecond early.
  assert.ok(waited >= 999, `waited for ${waited} ms`);
});

test("an ack is not repeated when it may have arrived", async () => {
  const once = scripted(broken("ECONNRESET"));
  await assert.rejects(new Client("http://x", { fetch: once.fetch }).ack("id", "token"), ConnectionError);
  const twice = scripted(broken("ECONNREFUSED"), { status: 200, body: { state: "done" } });
  assert.equal((await new Client("http://x", { fetch: twice.fetch }).ack("id", "token")).state, "done");
});

test("concurrent puts share a request, and each gets its own answer", async () => {
  const results = [0, 1, 2].map((n) => (n === 1 ? { error: { status: 409, code: "key-exists", detail: "no" } } : { ok: { ...CREATED, id: String(n) } }));
  const { fetch, sent } = scripted({ status: 200, body: { results } });
  const client = new Client("http://x", { fetch });
  const answers = await Promise.allSettled([0, 1, 2].map((n) => client.put("q", n)));
  assert.deepEqual(answers.map((it) => (it.status === "fulfilled" ? it.value.id : it.reason.code)), ["0", "key-exists", "2"]);
  assert.equal(sent.length, 1);
  assert.equal(sent[0]!.body.items.length, 3);
});

test("large jobs do not share a request", async () => {
  const client = new Fake().client({ batchWindow: 20 });
  await Promise.all([1, 2, 3].map(() => client.put("q", "x".repeat(3 << 20))));
  assert.equal((await client.queue("q")).jobs.ready, 3);
});

test("a server that is not there is named", async () => {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  server.close();
  await once(server, "close");
  const client = new Client(`http://127.0.0.1:${port}`, { retryFor: 0 });
  await assert.rejects(client.health(), (error: ConnectionError) => !error.sent && /GET \/healthz/.test(error.message));
  assert.throws(() => new Client("127.0.0.1:7300"), /not a URL/);
});

test("durations", () => {
  assert.equal(milliseconds("1h30m"), 5_400_000);
  assert.equal(milliseconds(5), 5);
  assert.throws(() => milliseconds("soon"), /"soon" is not a duration/);
});

test("a date is sent in milliseconds, and undefined as null", async () => {
  const server = await Server.start();
  try {
    const client = server.client();
    const due = new Date("2030-01-01T00:00:00Z");
    const { id, due_ms } = await client.put("q", undefined, { due });
    assert.equal(due_ms, due.getTime());
    assert.equal((await client.get(id)).payload, null);
  } finally {
    await server.close();
  }
});
