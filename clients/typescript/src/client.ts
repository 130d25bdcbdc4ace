import { AsyncLocalStorage } from "node:async_hooks";
import { Batcher, putMany, putOne } from "./batcher.js";
import { Transport, type Call, type ClientOptions } from "./transport.js";
import {
  milliseconds, type Clock, type Content, type Delivery, type Duration, type Event, type FailOptions,
  type Health, type Job, type JobPage, type JobRef, type JobState, type ListOptions, type NewSchedule,
  type Put, type PutOptions, type PutResult, type Queue, type QueueSettings, type ReserveOptions,
  type Result, type Schedule, type Stats, type Timestamp, type When,
} from "./types.js";

/** The `traceparent` of the job whose handler is running; puts carry it on. */
export const currentTraceparent = new AsyncLocalStorage<string | undefined>();

/** A batch item that names a lease. */
export interface LeaseItem {
  id: string;
  token: string;
}

/**
 * A client of one Tickwheel server.
 *
 * `url` defaults to the environment variable `TICKWHEEL_URL`, then to the server's own default.
 * Requests that are refused with 429 or 503, or whose connection breaks, are repeated if that is
 * safe. Puts are always safe to repeat, since each carries an idempotency key.
 */
export class Client {
  /** @internal */
  readonly transport: Transport;
  private readonly batcher: Batcher | undefined;

  constructor(url?: string, options: ClientOptions = {}) {
    this.transport = new Transport(url, options);
    const window = options.batchWindow ?? 1;
    this.batcher = window > 0 ? new Batcher(this.transport, window) : undefined;
  }

  get url(): string {
    return this.transport.url;
  }

  // Producers

  /**
   * Puts a job with a JSON payload: `put("orders", { order: 42 }, { delay: "30m" })`. Resolves when
   * the job is durable. Throws an `ApiError` with the code `key-exists` if `on_conflict` is
   * `"reject"` and a live job has the key.
   */
  put(queue: string, payload: unknown, options: PutOptions & { idempotencyKey?: string } = {}): Promise<PutResult> {
    const { idempotencyKey, ...rest } = options;
    return this.putJob({ queue, payload, ...rest }, idempotencyKey);
  }

  /** Puts a job, whose content may also be `text` or `base64`. */
  async putJob(job: Put, idempotencyKey?: string): Promise<PutResult> {
    const wire = putToWire(job);
    if (idempotencyKey !== undefined || this.batcher === undefined) {
      return putOne(this.transport, wire, idempotencyKey);
    }
    return this.batcher.put(wire);
  }

  /** Puts many jobs in one commit. Each has its own answer: `{ok}` or `{error}`. */
  putMany(jobs: Put[], idempotencyKey?: string): Promise<Result<PutResult>[]> {
    return putMany(this.transport, jobs.map(putToWire), idempotencyKey);
  }

  /** Returns a job. */
  get(job: JobRef): Promise<Job> {
    return this.read(jobPath(job));
  }

  /** Cancels a job, and returns the state in which it was. */
  cancel(job: JobRef): Promise<{ was: JobState }> {
    return this.transport.send({ method: "DELETE", path: jobPath(job) });
  }

  /** Changes when a job is due: exactly one of `delay` and `due`. */
  reschedule(job: JobRef, when: When): Promise<{ due: string; due_ms: number }> {
    return this.write("POST", `${jobPath(job)}/reschedule`, toWire(when), when.due !== undefined);
  }

  /** Returns one page of a queue's jobs. */
  list(queue: string, options: ListOptions = {}): Promise<JobPage> {
    const query = new URLSearchParams();
    for (const [name, value] of Object.entries(toWire(options))) {
      if (value !== undefined) query.set(name, String(value));
    }
    const text = query.toString();
    return this.read(`${queuePath(queue)}/jobs${text && `?${text}`}`);
  }

  /** Iterates over the jobs of all pages. */
  async *listAll(queue: string, options: Omit<ListOptions, "page"> = {}): AsyncGenerator<Job> {
    let page: string | null | undefined;
    do {
      const answer: JobPage = await this.list(queue, { ...options, page: page ?? undefined });
      yield* answer.jobs;
      page = answer.next;
    } while (page != null);
  }

  // Workers

  /** Leases jobs, waiting up to `wait` for the first. Aborting the signal ends the wait. */
  async reserve(queue: string, options: ReserveOptions = {}, signal?: AbortSignal): Promise<Delivery[]> {
    let wait = 0;
    try {
      wait = milliseconds(options.wait ?? 0);
    } catch {
      // The server explains what is wrong with it.
    }
    const answer = await this.transport.send<{ deliveries: Delivery[] }>({
      method: "POST", path: `${queuePath(queue)}/reserve`, body: options, wait, signal,
    });
    return answer.deliveries;
  }

  /** Acknowledges a job, optionally with a result, a JSON value. */
  ack(id: string, token: string, result?: unknown): Promise<{ state: JobState }> {
    return this.write("POST", `${jobPath(id)}/ack`, { token, result });
  }

  /** Reports a failed attempt. The job is retried by its policy, after `delay`, or, if `dead`, not at
   * all. */
  fail(id: string, token: string, options: FailOptions = {}): Promise<{ state: JobState }> {
    return this.write("POST", `${jobPath(id)}/fail`, { token, ...options });
  }

  /** Extends a lease: it now ends after `lease` from now. */
  extend(id: string, token: string, lease: Duration): Promise<{ until: string; until_ms: number }> {
    return this.write("POST", `${jobPath(id)}/extend`, { token, lease }, true);
  }

  /** Gives a job back to its queue without counting an attempt. */
  release(id: string, token: string, delay?: Duration): Promise<{ released: boolean }> {
    return this.write("POST", `${jobPath(id)}/release`, { token, delay });
  }

  /** Brings a dead job back. */
  kick(id: string): Promise<{ state: JobState }> {
    return this.write("POST", `${jobPath(id)}/kick`);
  }

  ackMany(items: (LeaseItem & { result?: unknown })[]): Promise<Result<{ state: JobState }>[]> {
    return this.batch("ack", items);
  }

  failMany(items: (LeaseItem & FailOptions)[]): Promise<Result<{ state: JobState }>[]> {
    return this.batch("fail", items);
  }

  extendMany(items: (LeaseItem & { lease: Duration })[]): Promise<Result<{ until_ms: number }>[]> {
    return this.batch("extend", items);
  }

  releaseMany(items: (LeaseItem & { delay?: Duration })[]): Promise<Result<{ released: boolean }>[]> {
    return this.batch("release", items);
  }

  cancelMany(ids: string[]): Promise<Result<{ was: JobState }>[]> {
    return this.batch("cancel", ids.map((id) => ({ id })));
  }

  rescheduleMany(items: ({ id: string } & When)[]): Promise<Result<{ due_ms: number }>[]> {
    return this.batch("reschedule", items.map(toWire));
  }

  kickMany(ids: string[]): Promise<Result<{ state: JobState }>[]> {
    return this.batch("kick", ids.map((id) => ({ id })));
  }

  private async batch<T>(action: string, items: object[]): Promise<Result<T>[]> {
    const path = `/v1/jobs/batch/${action}`;
    const answer = await this.write<{ results: Result<T>[] }>("POST", path, { items }, action === "extend");
    return answer.results;
  }

  // Queues

  /** Returns all queues, by name. */
  async queues(): Promise<Queue[]> {
    return (await this.read<{ queues: Queue[] }>("/v1/queues")).queues;
  }

  queue(name: string): Promise<Queue> {
    return this.read(queuePath(name));
  }

  /** Replaces all settings of a queue; absent ones get their defaults. */
  putSettings(queue: string, settings: QueueSettings): Promise<Queue> {
    return this.write("PUT", `${queuePath(queue)}/settings`, settings, true);
  }

  /** Changes the settings that are given. */
  patchSettings(queue: string, settings: QueueSettings): Promise<Queue> {
    return this.write("PATCH", `${queuePath(queue)}/settings`, settings, true);
  }

  /** Pauses deliveries. */
  pauseQueue(name: string): Promise<Queue> {
    return this.write("POST", `${queuePath(name)}/pause`, undefined, true);
  }

  /** Resumes deliveries. */
  resumeQueue(name: string): Promise<Queue> {
    return this.write("POST", `${queuePath(name)}/resume`, undefined, true);
  }

  /** Brings dead jobs back, the oldest first; returns how many. */
  kickQueue(name: string, limit?: number): Promise<number> {
    return this.count("POST", `${queuePath(name)}/kick`, { limit });
  }

  /** Removes finished jobs of a state; returns how many. */
  purgeQueue(name: string, state: "dead" | "done" | "cancelled", older_than?: Duration): Promise<number> {
    return this.count("POST", `${queuePath(name)}/purge`, { state, older_than });
  }

  /** Cancels waiting jobs; returns how many. */
  drainQueue(name: string): Promise<number> {
    return this.count("POST", `${queuePath(name)}/drain`);
  }

  /** Removes a queue, with its jobs if `force`; returns how many jobs. */
  removeQueue(name: string, options: { force?: boolean } = {}): Promise<number> {
    return this.count("DELETE", `${queuePath(name)}${options.force ? "?force=true" : ""}`);
  }

  private async count(method: string, path: string, body?: unknown): Promise<number> {
    return (await this.write<{ count: number }>(method, path, body)).count;
  }

  // Schedules

  /** Creates or replaces a schedule. */
  putSchedule(name: string, schedule: NewSchedule): Promise<Schedule> {
    return this.write("PUT", schedulePath(name), schedule, true);
  }

  /** Returns all schedules, by name. */
  async schedules(): Promise<Schedule[]> {
    return (await this.read<{ schedules: Schedule[] }>("/v1/schedules")).schedules;
  }

  schedule(name: string): Promise<Schedule> {
    return this.read(schedulePath(name));
  }

  /** Pauses a schedule: occurrences in the pause are skipped. */
  pauseSchedule(name: string): Promise<Schedule> {
    return this.write("POST", `${schedulePath(name)}/pause`, undefined, true);
  }

  resumeSchedule(name: string): Promise<Schedule> {
    return this.write("POST", `${schedulePath(name)}/resume`, undefined, true);
  }

  /** Removes a schedule and returns it. */
  removeSchedule(name: string): Promise<Schedule> {
    return this.write("DELETE", schedulePath(name));
  }

  /** Returns the next `n` times (5 by default) at which the schedule puts a job. */
  async nextRuns(name: string, n?: number): Promise<{ due: string; due_ms: number }[]> {
    const path = `${schedulePath(name)}/next${n === undefined ? "" : `?n=${n}`}`;
    return (await this.read<{ next: { due: string; due_ms: number }[] }>(path)).next;
  }

  // The service

  /**
   * Opens the stream of events, of one queue or of all, and resolves when the server has answered.
   * Leaving the loop over the events, or aborting the signal, ends the stream.
   */
  async events(
    queue?: string, options: { lastEventId?: string; signal?: AbortSignal } = {},
  ): Promise<AsyncGenerator<Event>> {
    const path = queue === undefined ? "/v1/events" : `${queuePath(queue)}/events`;
    const stop = new AbortController();
    const signal = options.signal ? AbortSignal.any([stop.signal, options.signal]) : stop.signal;
    const response = await this.transport.events(path, options.lastEventId, signal);
    return readEvents(response, stop);
  }

  stats(): Promise<Stats> {
    return this.read("/v1/stats");
  }

  health(): Promise<Health> {
    return this.read("/healthz");
  }

  clock(): Promise<Clock> {
    return this.read("/v1/clock");
  }

  /** Advances a manual clock, and resolves when everything that is due is done. */
  advance(by: Duration): Promise<Clock> {
    return this.write("POST", "/v1/clock/advance", { by });
  }

  private read<T>(path: string): Promise<T> {
    return this.transport.send({ method: "GET", path, repeatable: true });
  }

  private write<T>(method: string, path: string, body?: unknown, repeatable = false): Promise<T> {
    const call: Call = { method, path, repeatable };
    if (body !== undefined) call.body = body;
    return this.transport.send(call);
  }
}

function queuePath(queue: string): string {
  return `/v1/queues/${encodeURIComponent(queue)}`;
}

function schedulePath(name: string): string {
  return `/v1/schedules/${encodeURIComponent(name)}`;
}

function jobPath(job: JobRef): string {
  if (typeof job === "string") return `/v1/jobs/${encodeURIComponent(job)}`;
  return `${queuePath(job.queue)}/keys/${encodeURIComponent(job.key)}`;
}

function toWire<T extends object>(options: T): T {
  const dates = Object.entries(options).filter(([, value]) => value instanceof Date);
  return { ...options, ...Object.fromEntries(dates.map(([name, date]) => [name, date.getTime()])) };
}

function putToWire(put: Put): Put {
  const { traceparent, ...job } = put;
  const trace = traceparent ?? job.headers?.["traceparent"] ?? currentTraceparent.getStore();
  if (trace !== undefined) job.headers = { ...job.headers, traceparent: trace };
  // JSON has no undefined: a payload that is given but undefined becomes null.
  const hasContent = (job as Content).text !== undefined || (job as Content).base64 !== undefined;
  if ("payload" in job && job.payload === undefined && !hasContent) job.payload = null;
  return toWire(job);
}

async function* readEvents(response: Response, stop: AbortController): AsyncGenerator<Event> {
  let event = "message";
  let id: string | undefined;
  let data: string[] = [];
  let rest = "";
  try {
    const decoder = new TextDecoder();
    for await (const chunk of response.body as unknown as AsyncIterable<Uint8Array>) {
      const lines = (rest + decoder.decode(chunk, { stream: true })).split(/\r?\n/);
      rest = lines.pop()!;
      for (const line of lines) {
        if (line !== "") {
          const [, name, value] = /^([^:]*):? ?(.*)$/.exec(line)!;
          if (name === "event") event = value!;
          else if (name === "id") id = value;
          else if (name === "data") data.push(value!);
        } else if (data.length > 0 || event !== "message") {
          const members = data.length > 0 ? (JSON.parse(data.join("\n")) as object) : {};
          yield { ...members, event, id };
          event = "message";
          data = [];
        }
      }
    }
  } finally {
    stop.abort();
  }
}

export type { Timestamp };
