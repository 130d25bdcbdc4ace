/**
 * The in-memory fake, as a replacement of `fetch`: clients and workers run on it unchanged.
 */

import { randomUUID } from "node:crypto";
import { sleep } from "./transport.js";
import { milliseconds, type Duration, type Job, type JobState, type Problem, type QueueSettings, type Retry } from "./types.js";

const START_MS = 1_767_323_045_678;
const STATES: JobState[] = ["scheduled", "ready", "leased", "dead", "done", "cancelled"];
const DEFAULTS = {
  lease: "30s" as Duration,
  max_attempts: 10,
  retry: { fixed: "1s" } as Retry,
  pacing: {},
  group_pacing: {},
  order: "due" as "due" | "priority",
  retention: { done: { count: 0 }, dead: {}, cancelled: { count: 0 } } as NonNullable<QueueSettings["retention"]>,
};

type Body = Record<string, any>;
type FakeJob = Job & { token?: string };
interface FakeQueue {
  name: string;
  paused: boolean;
  settings: typeof DEFAULTS;
}

class Refused extends Error {
  readonly problem: Problem;

  constructor(status: number, code: string, detail: string, more: Partial<Problem> = {}) {
    super(detail);
    this.problem = { status, code, detail, title: detail, request_id: "fake", ...more };
  }
}

/** Returns a `fetch` that answers from memory. */
export function fakeFetch(): typeof fetch {
  const service = new FakeService();
  return async (input, init = {}) => {
    const url = new URL(String(input));
    const body = typeof init.body === "string" ? (JSON.parse(init.body) as Body) : {};
    for (;;) {
      init.signal?.throwIfAborted();
      let status = 200;
      let answer: unknown;
      try {
        answer = service.answer(init.method ?? "GET", url, body, new Headers(init.headers));
      } catch (error) {
        if (!(error instanceof Refused)) throw error;
        answer = error.problem;
        status = error.problem.status;
      }
      if (answer !== undefined) return Response.json(answer, { status });
      // A reserve waits: it looks again soon.
      await sleep(5);
    }
  };
}

class FakeService {
  private now = START_MS;
  private readonly jobs = new Map<string, FakeJob>();
  private readonly queues = new Map<string, FakeQueue>();
  private readonly replays = new Map<string, { body: string; answer: unknown }>();

  /** Answers a request, or returns undefined if its caller must wait. */
  answer(method: string, url: URL, body: Body, headers: Headers): unknown {
    const names = url.pathname.split("/").slice(2).map(decodeURIComponent);
    const [first, second = "", third = "", fourth = "", fifth = ""] = names;
    if (first === "jobs" && second === "batch" && third === "") {
      return this.once(headers, body, () => this.each(body, (item) => this.put(item["queue"], item)));
    }
    if (first === "jobs" && second === "batch") {
      return this.each(body, (item) => this.act(method, this.job(item["id"]), third, item));
    }
    if (first === "jobs") return this.act(method, this.job(second), third, body);
    if (first === "queues" && third === "keys") {
      const job = this.jobOfKey(second, fourth);
      if (!job) throw new Refused(404, "not-found", `no live job of queue "${second}" has the key "${fourth}"`);
      return this.act(method, job, fifth, body);
    }
    if (first === "queues") return this.onQueue(method, second, third, body, url.searchParams, headers);
    if (first === "clock") {
      if (second === "advance") this.advance(milliseconds(body["by"]));
      return { now: new Date(this.now).toISOString(), now_ms: this.now, manual: true };
    }
    throw new Refused(501, "not-implemented", `the fake does not have ${method} ${url.pathname}: use Server`);
  }

  private once(headers: Headers, body: unknown, put: () => unknown): unknown {
    const key = headers.get("idempotency-key") ?? "";
    const text = JSON.stringify(body);
    const first = this.replays.get(key);
    if (first && first.body !== text) {
      throw new Refused(422, "idempotency-conflict", `the key "${key}" was used with another body`);
    }
    if (first) return first.answer;
    const answer = put();
    this.replays.set(key, { body: text, answer });
    return answer;
  }

  private each(body: Body, act: (item: Body) => unknown): unknown {
    const results = (body["items"] as Body[]).map((item) => {
      try {
        return { ok: act(item) };
      } catch (error) {
        if (!(error instanceof Refused)) throw error;
        return { error: error.problem };
      }
    });
    return { results };
  }

  private queue(name: string): FakeQueue {
    if (!/^[A-Za-z0-9_-][A-Za-z0-9_.-]{0,127}$/.test(name)) {
      throw new Refused(400, "invalid-parameter", `"${name}" is not a name of a queue`, { field: "queue" });
    }
    let queue = this.queues.get(name);
    if (!queue) this.queues.set(name, (queue = { name, paused: false, settings: DEFAULTS }));
    return queue;
  }

  private millis(body: Body, field: string): number {
    try {
      return milliseconds(body[field] as Duration);
    } catch {
      const detail = `"${body[field]}" is not a length of time`;
      throw new Refused(422, "invalid-field", detail, { field: `/${field}` });
    }
  }

  private when(body: Body): number {
    if (body["delay"] !== undefined) return this.now + this.millis(body, "delay");
    const due = body["due"] as number | string | undefined;
    return typeof due === "string" ? Date.parse(due) : (due ?? this.now);
  }

  private put(queue: string, body: Body): unknown {
    const forms = ["payload", "text", "base64"].filter((form) => body[form] !== undefined);
    if (forms.length !== 1) {
      throw new Refused(422, "missing-field", "give exactly one of payload, text and base64", { field: "/payload" });
    }
    this.queue(queue);
    const due_ms = this.when(body);
    const holder = body["key"] === undefined ? undefined : this.jobOfKey(queue, body["key"]);
    let outcome: object = { outcome: "created" };
    if (holder) {
      const { id } = holder;
      if (body["on_conflict"] === "reject") {
        throw new Refused(409, "key-exists", `a live job has the key "${body["key"]}"`, { id });
      }
      if (body["on_conflict"] === "keep") return { id, queue, outcome: "kept", due_ms: holder.due_ms };
      this.finish(holder, "cancelled");
      outcome = { outcome: "replaced", replaced: id };
    }
    const id = (body["id"] as string | undefined) ?? randomUUID();
    if (this.jobs.has(id)) throw new Refused(409, "id-exists", `a job has the id ${id}`, { id });
    const kinds: Body = { payload: "application/json", text: "text/plain; charset=utf-8", base64: "application/octet-stream" };
    const { delay: _delay, due: _due, on_conflict: _conflict, ...rest } = body;
    const created = new Date(this.now).toISOString();
    const headers = { "content-type": kinds[forms[0]!], ...body["headers"] };
    const job = { priority: 0, ...rest, id, queue, created, created_ms: this.now, attempts: 0, headers } as FakeJob;
    this.jobs.set(id, job);
    this.waitFor(job, due_ms);
    return { id, queue, due: job.due, due_ms, ...outcome };
  }

  private waitFor(job: FakeJob, due: number): void {
    delete job.lease;
    delete job.token;
    job.due_ms = due;
    job.due = new Date(due).toISOString();
    job.state = due <= this.now ? "ready" : "scheduled";
  }

  private job(id: string): FakeJob {
    const job = this.jobs.get(id);
    if (!job) throw new Refused(404, "not-found", `there is no job ${id}`);
    return job;
  }

  private jobOfKey(queue: string, key: string): FakeJob | undefined {
    return [...this.jobs.values()].find((job) => job.queue === queue && job.key === key && isLive(job));
  }

  private finish(job: FakeJob, state: "done" | "dead" | "cancelled"): void {
    job.state = state;
    job.finished_ms = this.now;
    delete job.lease;
    delete job.token;
    if (this.queue(job.queue).settings.retention[state]?.count === 0) this.jobs.delete(job.id);
  }

  private act(method: string, job: FakeJob, action: string, body: Body): unknown {
    const needs = (states: JobState[]) => {
      if (!states.includes(job.state)) throw new Refused(409, "wrong-state", `the job is ${job.state}`);
    };
    if (action === "" && method === "GET") return shown(job);
    if (action === "" || action === "cancel") {
      needs(["scheduled", "ready", "leased"]);
      const was = job.state;
      this.finish(job, "cancelled");
      return { was };
    }
    if (action === "reschedule") {
      needs(["scheduled", "ready"]);
      this.waitFor(job, this.when(body));
      return { due: job.due, due_ms: job.due_ms };
    }
    if (action === "kick") {
      needs(["dead"]);
      job.attempts = 0;
      this.waitFor(job, this.now);
      return { state: job.state };
    }
    return this.actOnLease(job, action, body);
  }

  private actOnLease(job: FakeJob, action: string, body: Body): unknown {
    if (job.token === undefined || job.token !== body["token"]) {
      throw new Refused(409, "stale-lease", "the lease has expired, or another worker has the job");
    }
    switch (action) {
      case "extend":
        job.lease = this.until(this.millis(body, "lease"));
        return job.lease;
      case "ack":
        if (body["result"] !== undefined) job.result = body["result"];
        this.finish(job, "done");
        return { state: "done" };
      case "release":
        job.attempts -= 1;
        this.waitFor(job, body["delay"] === undefined ? job.due_ms : this.when(body));
        return { released: true };
      case "fail": {
        const delay = body["delay"] === undefined ? undefined : this.millis(body, "delay");
        this.failed(job, body["error"] ?? "", delay, body["dead"] === true);
        return { state: job.state };
      }
      default:
        throw new Refused(501, "not-implemented", `the fake does not have ${action}`);
    }
  }

  private until(lease: number): { until: string; until_ms: number } {
    const until_ms = this.now + lease;
    return { until: new Date(until_ms).toISOString(), until_ms };
  }

  private failed(job: FakeJob, error: string, delay: number | undefined, dead: boolean): void {
    const { settings } = this.queue(job.queue);
    job.last_error = error;
    if (dead || job.attempts >= (job.max_attempts ?? settings.max_attempts)) this.finish(job, "dead");
    else this.waitFor(job, this.now + (delay ?? retryAfter(job.retry ?? settings.retry, job.attempts)));
  }

  private onQueue(
    method: string, name: string, action: string, body: Body, query: URLSearchParams, headers: Headers,
  ): unknown {
    if (name === "") return { queues: [...this.queues.keys()].sort().map((it) => this.shownQueue(it)) };
    if (action === "jobs" && method === "POST") {
      return this.once(headers, [name, body], () => this.put(name, body));
    }
    if (action === "jobs") return this.list(name, query);
    if (action === "reserve") return this.reserve(name, body);
    if (action === "settings") {
      const old = method === "PATCH" ? this.queue(name).settings : DEFAULTS;
      const retention = { ...old.retention, ...body["retention"] };
      this.queue(name).settings = { ...old, ...body, retention };
      return this.shownQueue(name);
    }
    if (!this.queues.has(name)) throw new Refused(404, "not-found", `there is no queue "${name}"`);
    const of = (...states: JobState[]) => this.of(name).filter((job) => states.includes(job.state));
    switch (action) {
      case "":
        if (method === "GET") return this.shownQueue(name);
        break;
      case "pause":
      case "resume":
        this.queue(name).paused = action === "pause";
        return this.shownQueue(name);
      case "kick": {
        const dead = of("dead").slice(0, body["limit"]);
        dead.forEach((job) => this.act("POST", job, "kick", {}));
        return { count: dead.length };
      }
      case "drain": {
        const waiting = of("scheduled", "ready");
        waiting.forEach((job) => this.finish(job, "cancelled"));
        return { count: waiting.length };
      }
    }
    throw new Refused(501, "not-implemented", `the fake does not have ${method} ${action}: use Server`);
  }

  private of(queue: string): FakeJob[] {
    const jobs = [...this.jobs.values()].filter((job) => job.queue === queue);
    return jobs.sort((a, b) => a.due_ms - b.due_ms || b.priority - a.priority);
  }

  private list(queue: string, query: URLSearchParams): unknown {
    for (const name of ["key", "error", "error_group"]) {
      if (query.has(name)) {
        throw new Refused(501, "not-implemented", `the fake cannot list jobs by ${name}: use a Server`);
      }
    }
    const time = (name: string, otherwise: number) => Number(query.get(name) ?? otherwise);
    const jobs = this.of(queue).filter((job) => (
      [null, job.state].includes(query.get("state") as JobState | null)
      && (job.key ?? "").startsWith(query.get("key_prefix") ?? "")
      && job.due_ms >= time("due_from", 0) && job.due_ms <= time("due_to", Infinity)
    ));
    const first = time("page", 0);
    const end = first + time("limit", 100);
    return { jobs: jobs.slice(first, end).map(shown), next: jobs.length > end ? String(end) : null };
  }

  private reserve(name: string, body: Body): unknown {
    const { paused, settings } = this.queue(name);
    const ready = paused ? [] : this.of(name).filter((job) => job.state === "ready");
    if (ready.length === 0 && body["wait"] !== undefined && this.millis(body, "wait") > 0) return undefined;
    if (settings.order === "priority") ready.sort((a, b) => b.priority - a.priority || a.due_ms - b.due_ms);
    const deliveries = ready.slice(0, body["limit"] ?? 1).map((job) => {
      job.state = "leased";
      job.token = randomUUID().replaceAll("-", "").slice(0, 16);
      job.lease = this.until(this.millis(body["lease"] === undefined ? settings : body, "lease"));
      job.attempts += 1;
      return { job: shown(job), token: job.token, ...job.lease };
    });
    return { deliveries };
  }

  private advance(by: number): void {
    this.now += by;
    for (const job of [...this.jobs.values()]) {
      if (job.lease && job.lease.until_ms <= this.now) this.failed(job, "the lease expired", undefined, false);
      if (job.state === "scheduled" && job.due_ms <= this.now) job.state = "ready";
    }
  }

  private shownQueue(name: string): unknown {
    const jobs = this.of(name);
    const counts = STATES.map((state) => [state, jobs.filter((job) => job.state === state).length]);
    return { ...this.queue(name), jobs: Object.fromEntries(counts), more_ready: false };
  }
}

function isLive(job: Job): boolean {
  return ["scheduled", "ready", "leased"].includes(job.state);
}

function shown(job: FakeJob): Job {
  const { token: _token, ...rest } = job;
  return structuredClone(rest);
}

function retryAfter(retry: Retry, attempts: number): number {
  if (retry.fixed !== undefined) return milliseconds(retry.fixed);
  if (retry.list) return milliseconds(retry.list[Math.min(attempts, retry.list.length) - 1]!);
  const { first, max } = retry.exponential!;
  return Math.min(milliseconds(max), milliseconds(first) * 2 ** (attempts - 1));
}
