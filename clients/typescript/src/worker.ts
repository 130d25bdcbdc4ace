/**
 * The worker. Each queue has a loop that reserves as many jobs as there are free places
 * (`concurrency` plus `prefetch`), and starts one task per job; `concurrency` of them run at a time.
 * A timer extends the leases of all jobs in hand when a third of the lease is over.
 */

import { hostname } from "node:os";
import { currentTraceparent, type Client } from "./client.js";
import { ApiError, DeadJob, ReleaseJob, RetryJob } from "./errors.js";
import { retryDelay, sleep } from "./transport.js";
import { milliseconds, type Delivery, type Duration, type Job } from "./types.js";

const RESERVE_WAIT = "30s";
const MAX_LIMIT = 1_000;
const MAX_ERROR_BYTES = 4_096;

export interface Context {
  /** Aborted when the lease is lost, or when the worker stops and the grace is over. */
  signal: AbortSignal;
  client: Client;
}

/** Returns the job's result, or nothing. */
export type Handler = (job: Job, context: Context) => unknown;

/** Wraps all handlers: calls `next(job, context)` and returns its result. */
export type Middleware = (job: Job, context: Context, next: Handler) => unknown;

export interface HandlerOptions {
  /** How many jobs are handled at a time. Defaults to 16. */
  concurrency?: number;
  /** How many further jobs are reserved in advance. Defaults to 0. */
  prefetch?: number;
  /** Defaults to 30 s. It is extended while the job is in hand. */
  lease?: Duration;
}

export interface WorkerOptions extends HandlerOptions {
  /** Defaults to the host name and process id. */
  name?: string;
  /** How long running handlers may take after `stop`, in milliseconds. Defaults to 30 s. */
  grace?: number;
  /** Receives warnings; defaults to `console.warn`. */
  log?: (message: string) => void;
}

interface Registered extends Required<HandlerOptions> {
  queue: string;
  handler: Handler;
}

interface InHand {
  delivery: Delivery;
  settings: Registered;
  extendAt: number;
  lost: AbortController;
}

/**
 * Handles jobs of any number of queues.
 *
 * If a handler throws `RetryJob`, `DeadJob` or `ReleaseJob`, that happens to the job; any other
 * error fails the attempt, and the job is retried by its policy. Delivery is at least once, so
 * handlers must be idempotent.
 */
export class Worker {
  readonly name: string;
  private readonly registered: Registered[] = [];
  private readonly middleware: Middleware[] = [];
  private readonly inHand = new Map<string, InHand>();
  private readonly tasks = new Set<Promise<void>>();
  private readonly stopping = new AbortController();
  private readonly log: (message: string) => void;

  constructor(readonly client: Client, private readonly options: WorkerOptions = {}) {
    this.name = options.name ?? `${hostname()}-${process.pid}`;
    this.log = options.log ?? ((message) => console.warn(message));
  }

  /** Registers the handler of a queue. */
  handle(queue: string, handler: Handler, options: HandlerOptions = {}): this {
    if (this.registered.some((it) => it.queue === queue)) {
      throw new TypeError(`queue "${queue}" has a handler already`);
    }
    const { concurrency = 16, prefetch = 0, lease = "30s" } = { ...this.options, ...options };
    if (!Number.isInteger(concurrency) || concurrency < 1) {
      throw new RangeError(`concurrency must be at least 1, got ${concurrency}`);
    }
    if (!Number.isInteger(prefetch) || prefetch < 0) {
      throw new RangeError(`prefetch must be at least 0, got ${prefetch}`);
    }
    if (milliseconds(lease) <= 0) throw new RangeError(`lease must be greater than zero, got ${lease}`);
    this.registered.push({ queue, handler, concurrency, prefetch, lease });
    return this;
  }

  /** Adds middleware; the first one that is added is the outermost. */
  use(middleware: Middleware): this {
    this.middleware.push(middleware);
    return this;
  }

  /** Works until `stop` is called, or SIGINT or SIGTERM arrives if `signals` is true. */
  async run(options: { signals?: boolean } = {}): Promise<void> {
    if (this.registered.length === 0) {
      throw new TypeError("the worker has no handler: register one with handle(queue, handler)");
    }
    const onSignal = () => this.stop();
    const signals: NodeJS.Signals[] = options.signals ? ["SIGINT", "SIGTERM"] : [];
    signals.forEach((signal) => process.on(signal, onSignal));
    const extender = new AbortController();
    const extending = this.extendLeases(extender.signal);
    await Promise.all(this.registered.map((settings) => this.fetch(settings)));
    await Promise.race([Promise.all(this.tasks), sleep(this.options.grace ?? 30_000, extender.signal)]);
    await this.releaseRest();
    await Promise.race([Promise.all(this.tasks), sleep(1_000, extender.signal)]);
    extender.abort();
    await extending;
    signals.forEach((signal) => process.off(signal, onSignal));
  }

  /** Stops reserving, lets running handlers finish, and releases the jobs that have not been started.
   * The signal of handlers that take longer than the grace is aborted. */
  stop(): void {
    this.stopping.abort();
  }

  private async fetch(settings: Registered): Promise<void> {
    const { queue, concurrency, prefetch, lease } = settings;
    const signal = this.stopping.signal;
    const running = new Semaphore(concurrency);
    let held = 0;
    let failures = 0;
    let freed = () => {};
    while (!signal.aborted) {
      const limit = Math.min(MAX_LIMIT, concurrency + prefetch - held);
      if (limit === 0) {
        await new Promise<void>((resolve) => {
          freed = resolve;
          signal.addEventListener("abort", () => resolve(), { once: true });
        });
        continue;
      }
      let deliveries: Delivery[];
      try {
        const body = { limit, lease, wait: RESERVE_WAIT, worker: this.name };
        const path = `/v1/queues/${encodeURIComponent(queue)}/reserve`;
        const wait = milliseconds(RESERVE_WAIT);
        const answer = await this.client.transport.send<{ deliveries: Delivery[] }>(
          { method: "POST", path, body, wait, signal, once: true },
        );
        deliveries = answer.deliveries;
        failures = 0;
      } catch (error) {
        if (signal.aborted) return;
        // The server may be restarting: keep asking, less and less often.
        const delay = retryDelay(failures, error);
        this.log(`cannot reserve from ${queue}, next try in ${Math.round(delay)} ms: ${error}`);
        failures = Math.min(failures + 1, 10);
        await sleep(delay, signal);
        continue;
      }
      for (const delivery of deliveries) {
        held += 1;
        const task = this.process(delivery, settings, running).finally(() => {
          held -= 1;
          this.tasks.delete(task);
          freed();
        });
        this.tasks.add(task);
      }
    }
  }

  private async process(delivery: Delivery, settings: Registered, running: Semaphore): Promise<void> {
    const extendAt = performance.now() + milliseconds(settings.lease) / 3;
    const held: InHand = { delivery, settings, extendAt, lost: new AbortController() };
    this.inHand.set(delivery.job.id, held);
    await running.acquire();
    try {
      // What has not been started when the worker stops is released.
      if (this.stopping.signal.aborted || held.lost.signal.aborted) return;
      await this.runHandler(held);
    } finally {
      running.release();
    }
  }

  private async runHandler(held: InHand): Promise<void> {
    const { job } = held.delivery;
    const context: Context = { signal: held.lost.signal, client: this.client };
    let result: unknown;
    let failure: unknown;
    let failed = false;
    try {
      const handler = this.middleware.reduceRight<Handler>(
        (next, middleware) => (job, context) => middleware(job, context, next),
        held.settings.handler,
      );
      const trace = job.headers?.["traceparent"];
      result = await currentTraceparent.run(trace, async () => handler(job, context));
      JSON.stringify(result);
    } catch (error) {
      failed = true;
      failure = error;
    }
    try {
      if (held.lost.signal.aborted) {
        this.log(`job ${job.id}: the lease was lost while its handler ran`);
      } else {
        await (failed ? this.reportFailure(held, failure) : this.client.ack(job.id, held.delivery.token, result));
      }
    } catch (error) {
      const isStale = error instanceof ApiError && error.isStaleLease;
      const why = isStale ? "its lease expired before its outcome was reported" : `its outcome cannot be reported: ${error}`;
      this.log(`job ${job.id}: ${why}`);
    } finally {
      if (this.inHand.get(job.id) === held) this.inHand.delete(job.id);
    }
  }

  private reportFailure(held: InHand, failure: unknown): Promise<unknown> {
    const { job, token } = held.delivery;
    if (failure instanceof ReleaseJob) return this.client.release(job.id, token, failure.delay);
    const error = boundedError(failure);
    if (failure instanceof DeadJob) return this.client.fail(job.id, token, { error, dead: true });
    const delay = failure instanceof RetryJob ? failure.delay : undefined;
    return this.client.fail(job.id, token, { error, delay });
  }

  private async extendLeases(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      const now = performance.now();
      const held = [...this.inHand.values()];
      const due = held.filter((it) => it.extendAt <= now);
      if (due.length > 0) await this.extend(due);
      const next = Math.min(250, ...held.filter((it) => it.extendAt > now).map((it) => it.extendAt - now));
      await sleep(Math.max(5, next), signal);
    }
  }

  private async extend(due: InHand[]): Promise<void> {
    const items = due.map(({ delivery, settings }) => (
      { id: delivery.job.id, token: delivery.token, lease: settings.lease }
    ));
    try {
      const results = await this.client.extendMany(items);
      due.forEach((held, index) => {
        held.extendAt = performance.now() + milliseconds(held.settings.lease) / 3;
        // An error for a job that was reported meanwhile means nothing.
        if (results[index]!.error && this.inHand.get(held.delivery.job.id) === held) {
          this.inHand.delete(held.delivery.job.id);
          held.lost.abort();
        }
      });
    } catch (error) {
      this.log(`cannot extend ${due.length} leases: ${error}`);
      const soon = (held: InHand) => Math.min(1_000, milliseconds(held.settings.lease) / 12);
      due.forEach((held) => (held.extendAt = performance.now() + soon(held)));
    }
  }

  private async releaseRest(): Promise<void> {
    const rest = [...this.inHand.values()];
    this.inHand.clear();
    if (rest.length === 0) return;
    rest.forEach((held) => held.lost.abort());
    try {
      await this.client.releaseMany(rest.map(({ delivery }) => ({ id: delivery.job.id, token: delivery.token })));
    } catch (error) {
      this.log(`cannot release ${rest.length} jobs, their leases will expire: ${error}`);
    }
  }
}

class Semaphore {
  private readonly waiting: (() => void)[] = [];

  constructor(private free: number) {}

  async acquire(): Promise<void> {
    if (this.free > 0) this.free -= 1;
    else await new Promise<void>((resolve) => this.waiting.push(resolve));
  }

  release(): void {
    const next = this.waiting.shift();
    if (next) next();
    else this.free += 1;
  }
}

/** Returns the error's text within the limit of the API. */
function boundedError(error: unknown): string {
  const isOutcome = error instanceof RetryJob || error instanceof DeadJob;
  const text = isOutcome ? error.message : String(error);
  return Buffer.from(text).subarray(0, MAX_ERROR_BYTES).toString().replace(/\ufffd+$/, "");
}
