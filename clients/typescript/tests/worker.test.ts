/** The worker: leases, shutdown, middleware. */

import assert from "node:assert/strict";
import { setTimeout as delay } from "node:timers/promises";
import { test } from "node:test";
import { Worker, type Client } from "../src/index.js";
import { Fake, Server } from "../src/testing.js";

const quiet = { log: () => {} };
const timeout = 60_000;

test("the lease of a long handler is extended", { timeout }, async () => {
  const server = await Server.start({ manualClock: false });
  try {
    const client = server.client();
    await client.put("q", 1);
    const worker = new Worker(client, { lease: "600ms" });
    const attempts: number[] = [];
    worker.handle("q", async (job) => {
      attempts.push(job.attempts);
      await delay(2000); // The work itself, more than three leases long.
      worker.stop();
    });
    await worker.run();
    assert.deepEqual(attempts, [1]);
    assert.equal((await client.queue("q")).jobs.leased, 0);
  } finally {
    await server.close();
  }
});

test("a handler whose lease is lost is told, and does not acknowledge", { timeout }, async () => {
  const fake = new Fake();
  const client = fake.client();
  await client.put("q", 1);
  const worker = new Worker(client, { lease: "300ms", ...quiet });
  worker.handle("q", async (_, { signal }) => {
    await fake.advance("1s"); // The lease expires: the next extension fails.
    if (!signal.aborted) await new Promise((resolve) => signal.addEventListener("abort", resolve));
    worker.stop();
  });
  await worker.run();
  assert.equal((await client.queue("q")).jobs.scheduled, 1);
});

test("on shutdown running handlers finish and the rest is released", { timeout }, async () => {
  const client = new Fake().client();
  for (let n = 0; n < 6; n++) await client.put("q", n);
  const worker = new Worker(client, { concurrency: 1, prefetch: 5 });
  worker.handle("q", async () => {
    assert.equal((await client.queue("q")).jobs.leased, 6);
    worker.stop();
  });
  await worker.run();
  const { leased, ready } = (await client.queue("q")).jobs;
  assert.deepEqual({ leased, ready }, { leased: 0, ready: 5 });
  for await (const job of client.listAll("q")) assert.equal(job.attempts, 0);
});

test("handlers that exceed the grace lose their job", { timeout }, async () => {
  const client = new Fake().client();
  await client.put("q", 1);
  const worker = new Worker(client, { grace: 20, ...quiet });
  worker.handle("q", async (_, { signal }) => {
    worker.stop();
    await delay(timeout, undefined, { signal });
  });
  await worker.run();
  assert.equal((await client.queue("q")).jobs.ready, 1);
});

test("a waiting worker stops at once", { timeout }, async () => {
  const server = await Server.start();
  try {
    const worker = new Worker(server.client()).handle("q", () => {});
    const running = worker.run();
    await server.client().put("other", 1);
    worker.stop();
    await running;
  } finally {
    await server.close();
  }
});

test("a worker reconnects after a restart of the server", { timeout }, async () => {
  const server = await Server.start();
  try {
    const client = server.client();
    const worker = new Worker(client, quiet);
    const done: unknown[] = [];
    let begun!: () => void, finish!: () => void, handledTwo!: () => void;
    const hasBegun = new Promise<void>((resolve) => { begun = resolve; });
    const mayFinish = new Promise<void>((resolve) => { finish = resolve; });
    const hasHandledTwo = new Promise<void>((resolve) => { handledTwo = resolve; });
    worker.handle("q", async (job) => {
      if (job.payload === 1) {
        begun();
        await mayFinish;
      }
      if (done.push(job.payload) === 2) handledTwo();
    });
    const running = worker.run();
    await client.put("q", 1);
    await hasBegun;
    await server.kill();
    await server.startAgain();
    finish(); // The worker holds a job, and reports it to the new process.
    await client.put("q", 2);
    await hasHandledTwo;
    worker.stop();
    await running;
    assert.deepEqual(done, [1, 2]);
    const { jobs, counters } = await client.queue("q");
    assert.deepEqual([jobs.ready, jobs.leased, counters?.acked], [0, 0, 2]);
  } finally {
    await server.close();
  }
});

test("middleware wraps in order, and bad settings are refused", { timeout }, async () => {
  const client: Client = new Fake().client();
  await client.put("q", 1);
  const order: string[] = [];
  const worker = new Worker(client);
  worker.handle("q", () => {
    order.push("handler");
    worker.stop();
  });
  for (const name of ["outer", "inner"]) {
    worker.use(async (job, context, next) => {
      order.push(`${name} in`);
      await next(job, context);
      order.push(`${name} out`);
    });
  }
  await worker.run();
  assert.deepEqual(order, ["outer in", "inner in", "handler", "inner out", "outer out"]);
  assert.throws(() => worker.handle("q", () => {}), /has a handler already/);
  assert.throws(() => worker.handle("r", () => {}, { concurrency: 0 }), /concurrency must be at least 1, got 0/);
  await assert.rejects(new Worker(client).run(), /has no handler/);
});
