/** The operations on queues, groups, targets, schedules and the service. */

import type { Group, GroupPage, Target, TargetEvent, TargetSettings, TargetTest } from "./administration.js";
import type { BulkChange, BulkResult, ErrorGroups, History, Overview, Wheel } from "./insight.js";
import type { Call, Transport } from "./transport.js";
import type {
  Clock, Duration, Event, EventFilter, Health, NewSchedule, Pacing, Queue, QueueSettings, Schedule, Stats,
} from "./types.js";

/** The part of a client that administers a server. */
export class Administration {
  /** @internal */
  constructor(readonly transport: Transport) {}

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
    return this.count("POST", `${queuePath(name)}/remove-finished`, { state, older_than });
  }

  /** Cancels waiting jobs; returns how many. */
  drainQueue(name: string): Promise<number> {
    return this.count("POST", `${queuePath(name)}/cancel-waiting`);
  }

  /** Removes a queue, with its jobs if `force`; returns how many jobs. */
  removeQueue(name: string, options: { force?: boolean } = {}): Promise<number> {
    return this.count("DELETE", `${queuePath(name)}${options.force ? "?force=true" : ""}`);
  }

  private async count(method: string, path: string, body?: unknown): Promise<number> {
    return (await this.write<{ count: number }>(method, path, body)).count;
  }

  /** Returns a page of a queue's groups that have live jobs or settings, by name. */
  groups(queue: string, options: { prefix?: string; limit?: number; page?: string } = {}): Promise<GroupPage> {
    return this.read(`${queuePath(queue)}/groups${queryOf(options)}`);
  }

  /** Pauses or resumes a group, or gives it limits of its own. With `pacing: null` those of the queue
   * hold again. */
  patchGroup(queue: string, group: string, patch: { paused?: boolean; pacing?: Pacing | null }): Promise<Group> {
    return this.write("PATCH", `${queuePath(queue)}/groups/${encodeURIComponent(group)}`, patch, true);
  }

  // Failures, and changes to every job that matches

  /** Returns why jobs of one queue, or of all queues, fail, in up to `limit` groups (100 by default). */
  errors(queue?: string, options: { limit?: number } = {}): Promise<ErrorGroups> {
    const path = queue === undefined ? "/v1/errors" : `${queuePath(queue)}/errors`;
    return this.read(path + queryOf(options));
  }

  /** Changes jobs of a queue that match: one step of up to `limit` jobs. The next step has `next` of
   * the answer as its `cursor`. */
  changeMatching(queue: string, change: BulkChange): Promise<BulkResult> {
    const body = { ...toWire(change), ...(change.filter && { filter: toWire(change.filter) }) };
    return this.write("POST", `${queuePath(queue)}/bulk`, body, change.dry_run === true);
  }

  /** Changes every job of a queue that matches, step by step, and returns the sums of all steps. If a
   * step fails, the jobs of earlier steps stay changed. */
  async changeAllMatching(queue: string, change: BulkChange): Promise<BulkResult> {
    const sums: BulkResult = { matched: 0, changed: 0, skipped: 0, next: null };
    for (let next: BulkChange | undefined = change; next !== undefined; ) {
      const step: BulkResult = await this.changeMatching(queue, next);
      sums.matched += step.matched;
      sums.changed += step.changed;
      sums.skipped += step.skipped;
      sums.why ??= step.why;
      next = step.next === null ? undefined : { ...change, cursor: step.next };
    }
    return sums;
  }

  // Targets

  /** Returns all targets, by name. */
  async targets(): Promise<Target[]> {
    return (await this.read<{ targets: Target[] }>("/v1/targets")).targets;
  }

  target(name: string): Promise<Target> {
    return this.read(targetPath(name));
  }

  /** Adds a target, or replaces its settings. The answer that adds it has its `secret`. */
  putTarget(name: string, settings: TargetSettings): Promise<Target> {
    return this.write("PUT", targetPath(name), settings, true);
  }

  /** Changes the settings that are given. */
  patchTarget(name: string, settings: TargetSettings): Promise<Target> {
    return this.write("PATCH", targetPath(name), settings, true);
  }

  /** Removes a target that no queue names, and returns it. */
  removeTarget(name: string): Promise<Target> {
    return this.write("DELETE", targetPath(name));
  }

  /** Pauses a target: its jobs stay in their queues. */
  pauseTarget(name: string): Promise<Target> {
    return this.write("POST", `${targetPath(name)}/pause`, undefined, true);
  }

  /** Resumes a target that is paused, held or stopped. */
  resumeTarget(name: string): Promise<Target> {
    return this.write("POST", `${targetPath(name)}/resume`, undefined, true);
  }

  /** Adds a signing secret. The old ones sign beside it for `keep_old`, 24 h by default. */
  rotateTarget(name: string, options: { keep_old?: Duration } = {}): Promise<Target> {
    return this.write("POST", `${targetPath(name)}/rotate`, options);
  }

  /** Sends one signed request to a target, and returns everything about it. */
  testTarget(name: string): Promise<TargetTest> {
    // The longest timeout of a target.
    return this.transport.send({ method: "POST", path: `${targetPath(name)}/test`, wait: 1_800_000 });
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

  /** Returns everything at one glance: health, totals, and the numbers of each queue. */
  overview(): Promise<Overview> {
    return this.read("/v1/overview");
  }

  /** Returns what happened in the last 15 minutes or 24 hours, in one queue or in all. */
  history(options: { window?: "15m" | "24h"; queue?: string } = {}): Promise<History> {
    return this.read(`/v1/history${queryOf(options)}`);
  }

  /** Returns the timing wheel: how many jobs and leases each slot holds. */
  wheel(): Promise<Wheel> {
    return this.read("/v1/wheel");
  }

  /**
   * Opens the stream of the events that match, of one queue or of all, and resolves when the server
   * has answered. Leaving the loop over the events, or aborting the signal, ends the stream.
   */
  async events(
    queue?: string, options: EventFilter & { lastEventId?: string; signal?: AbortSignal } = {},
  ): Promise<AsyncGenerator<Event>> {
    const { lastEventId, signal, event, ...filter } = options;
    const path = queue === undefined ? "/v1/events" : `${queuePath(queue)}/events`;
    return this.follow(path + queryOf({ event: event?.join(","), ...filter }), { lastEventId, signal });
  }

  /**
   * Opens the stream of the states of all targets. It begins with the state of each target, and ends
   * as that of `events` does.
   */
  async targetEvents(options: { signal?: AbortSignal } = {}): Promise<AsyncGenerator<TargetEvent>> {
    return this.follow("/v1/target-events", options);
  }

  private async follow<T>(
    path: string, options: { lastEventId?: string; signal?: AbortSignal },
  ): Promise<AsyncGenerator<T>> {
    const stop = new AbortController();
    const signal = options.signal ? AbortSignal.any([stop.signal, options.signal]) : stop.signal;
    const response = await this.transport.events(path, options.lastEventId, signal);
    return readEvents<T>(response, stop);
  }

  /** Returns statistics; with `since`, 10 s to 1 h, also what happened in that time. */
  stats(options: { since?: Duration } = {}): Promise<Stats> {
    const { since } = options;
    return this.read(`/v1/stats${queryOf({ since: typeof since === "number" ? `${since}ms` : since })}`);
  }

  health(): Promise<Health> {
    return this.read("/healthz");
  }

  /** Returns the health of the service if it is ready, and throws an `ApiError` if not. */
  ready(): Promise<Health> {
    return this.transport.send({ method: "GET", path: "/readyz", once: true });
  }

  clock(): Promise<Clock> {
    return this.read("/v1/clock");
  }

  /** Advances a manual clock, and resolves when everything that is due is done. */
  advance(by: Duration): Promise<Clock> {
    return this.write("POST", "/v1/clock/advance", { by });
  }

  protected read<T>(path: string): Promise<T> {
    return this.transport.send({ method: "GET", path, repeatable: true });
  }

  protected write<T>(method: string, path: string, body?: unknown, repeatable = false): Promise<T> {
    const call: Call = { method, path, repeatable };
    if (body !== undefined) call.body = body;
    return this.transport.send(call);
  }
}

export function queuePath(queue: string): string {
  return `/v1/queues/${encodeURIComponent(queue)}`;
}

function schedulePath(name: string): string {
  return `/v1/schedules/${encodeURIComponent(name)}`;
}

function targetPath(name: string): string {
  return `/v1/targets/${encodeURIComponent(name)}`;
}

/** Returns the query of a URL: the parameters that are given. */
export function queryOf(parameters: object): string {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(parameters)) {
    if (value !== undefined) query.set(name, String(value));
  }
  const text = query.toString();
  return text && `?${text}`;
}

/** Returns the members with times in milliseconds. */
export function toWire<T extends object>(options: T): T {
  const dates = Object.entries(options).filter(([, value]) => value instanceof Date);
  return { ...options, ...Object.fromEntries(dates.map(([name, date]) => [name, date.getTime()])) };
}

async function* readEvents<T>(response: Response, stop: AbortController): AsyncGenerator<T> {
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
          yield { ...members, event, id } as T;
          event = "message";
          data = [];
        }
      }
    }
  } finally {
    stop.abort();
  }
}
