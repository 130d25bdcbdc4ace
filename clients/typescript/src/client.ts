import { AsyncLocalStorage } from "node:async_hooks";
import { Batcher, putMany, putOne } from "./batcher.js";
import { Administration, queryOf, queuePath, toWire } from "./operations.js";
import type { ImportedJob } from "./administration.js";
import { Transport, type ClientOptions } from "./transport.js";
import {
  milliseconds, type Content, type Delivery, type Duration, type FailOptions, type Job, type JobPage,
  type JobRef, type JobState, type ListOptions, type Put, type PutOptions, type PutResult,
  type ReserveOptions, type Result, type Timestamp, type When,
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
export class Client extends Administration {
  private readonly batcher: Batcher | undefined;

  constructor(url?: string, options: ClientOptions = {}) {
    super(new Transport(url, options));
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

  /** Imports jobs of another server, with their ids. A job whose id exists is refused, so that an
   * import can be repeated. */
  importMany(jobs: ImportedJob[]): Promise<Result<{ id: string }>[]> {
    return this.batch("import", jobs.map(({ put, finished, ...rest }) => ({
      put: putToWire(put), ...toWire(rest), ...(finished && { finished: toWire(finished) }),
    })));
  }

  /** Returns the ids of the jobs that a short id stands for: its first four or more digits. */
  async findIds(short: string): Promise<string[]> {
    return (await this.read<{ ids: string[] }>(`/v1/ids/${encodeURIComponent(short)}`)).ids;
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
    return this.read(`${queuePath(queue)}/jobs${queryOf(toWire(options))}`);
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
}

function jobPath(job: JobRef): string {
  if (typeof job === "string") return `/v1/jobs/${encodeURIComponent(job)}`;
  return `${queuePath(job.queue)}/keys/${encodeURIComponent(job.key)}`;
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

export type { Timestamp };
