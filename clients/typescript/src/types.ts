/**
 * The types of requests and answers. Names are those of the HTTP API.
 */

import type { Activity } from "./administration.js";

/** Milliseconds, or text such as `"1h30m"` with the units ms, s, m, h, d, w. */
export type Duration = number | string;

/** Milliseconds since 1970, RFC 3339 text, or a `Date`. */
export type Timestamp = number | string | Date;

/** Any JSON value. */
export type Json = null | boolean | number | string | Json[] | { [name: string]: Json };

export type JobState = "scheduled" | "ready" | "leased" | "dead" | "done" | "cancelled";

/** What a put does when a live job of the queue has the same key. */
export type OnConflict = "replace" | "keep" | "reject";

/** A job that is put when another one ends. */
export interface FollowUp {
  queue: string;
  delay?: Duration;
}

/** The delay before a failed job is retried: exactly one of the three forms. */
export interface Retry {
  fixed?: Duration;
  /** A delay that doubles with each attempt, with up to `jitter` percent added. */
  exponential?: { first: Duration; max: Duration; jitter?: number };
  list?: Duration[];
}

/** What a job carries: exactly one of the three. */
export interface Content {
  /** A JSON value. */
  payload?: unknown;
  text?: string;
  /** Bytes in base 64. */
  base64?: string;
}

/** The options of a put. Without `delay` and `due` the job is due at once. */
export interface PutOptions {
  delay?: Duration;
  due?: Timestamp;
  key?: string;
  on_conflict?: OnConflict;
  /** From -128 to 127; of jobs due in the same millisecond the highest is delivered first. */
  priority?: number;
  headers?: Record<string, string>;
  max_attempts?: number;
  retry?: Retry;
  group?: string;
  id?: string;
  max_total_delay?: Duration;
  on_success?: FollowUp;
  on_death?: FollowUp;
  /** Goes into the job's header of that name. Defaults to that of the job being handled. */
  traceparent?: string;
}

/** A job to put, with its queue. */
export interface Put extends PutOptions, Content {
  queue: string;
}

export interface PutResult {
  id: string;
  queue: string;
  outcome: "created" | "replaced" | "kept";
  replaced?: string;
  due?: string;
  due_ms?: number;
}

export interface Job extends Content {
  id: string;
  queue: string;
  state: JobState;
  key?: string;
  group?: string;
  priority: number;
  headers?: Record<string, string>;
  due: string;
  due_ms: number;
  created: string;
  created_ms: number;
  /** The number of deliveries, without those that were released. */
  attempts: number;
  max_attempts?: number;
  retry?: Retry;
  lease?: { until: string; until_ms: number; since_ms?: number; worker?: string };
  last_error?: string;
  finished?: string;
  finished_ms?: number;
  result?: unknown;
  on_success?: FollowUp;
  on_death?: FollowUp;
  /** The last 20 attempts that have ended, the oldest first. Lists and deliveries leave them out. */
  history?: Attempt[];
}

/** An attempt that has ended: one delivery of a job to a worker. */
export interface Attempt {
  number: number;
  outcome: "done" | "failed" | "expired" | "released" | "cancelled";
  started_ms: number;
  ended_ms: number;
  worker?: string;
  error?: string;
  detail?: string;
}

/** A job that is leased to a worker. The token fences off workers whose lease has expired. */
export interface Delivery {
  job: Job;
  token: string;
  until: string;
  until_ms: number;
}

export interface JobPage {
  jobs: Job[];
  /** The `page` of the next page; `null` on the last one. */
  next: string | null;
  damaged?: string[];
  gaps?: number;
}

/** Names a job: by its id, or by queue and key. */
export type JobRef = string | { queue: string; key: string };

export interface When {
  delay?: Duration;
  due?: Timestamp;
}

export interface ReserveOptions {
  /** The maximum number of jobs. Defaults to 1. */
  limit?: number;
  lease?: Duration;
  /** How long to wait for a job if none is ready, at most 60 s. */
  wait?: Duration;
  /** The name of the worker, which is shown with its jobs and in their history. */
  worker?: string;
}

export interface FailOptions {
  error?: string;
  delay?: Duration;
  dead?: boolean;
}

export interface ListOptions {
  state?: JobState;
  due_from?: Timestamp;
  due_to?: Timestamp;
  key?: string;
  key_prefix?: string;
  /** A part of the last error, in any case of ASCII letters. */
  error?: string;
  /** `error` of an `ErrorGroup`. */
  error_group?: string;
  limit?: number;
  page?: string;
}

export interface Pacing {
  starts?: number | null;
  window?: Duration | null;
  concurrency?: number | null;
}

export interface Keep {
  age?: Duration | null;
  count?: number | null;
}

/** The settings of a queue; every field is optional in requests. */
export interface QueueSettings {
  lease?: Duration;
  max_attempts?: number;
  retry?: Retry;
  pacing?: Pacing;
  group_pacing?: Pacing;
  /** Whether groups are served in turn, one job each. */
  fair_groups?: boolean;
  /** The target that gets the jobs. An empty text removes it. */
  target?: string | null;
  retention?: { done?: Keep; dead?: Keep; cancelled?: Keep };
  order?: "due" | "priority";
}

export interface Queue {
  name: string;
  paused: boolean;
  jobs: Record<JobState, number>;
  more_ready: boolean;
  oldest_ready_ms?: number;
  counters?: QueueCounters;
  lateness?: Percentiles;
  settings: QueueSettings;
}

/** What has happened in a queue since it was created. */
export interface QueueCounters {
  put: number;
  delivered: number;
  acked: number;
  failed: number;
  expired: number;
  released: number;
  died: number;
  cancelled: number;
  kicked: number;
}

/** A schedule to put: either `cron`, optionally with a `timezone`, or `every`. */
export interface NewSchedule extends Content {
  queue: string;
  cron?: string;
  timezone?: string;
  every?: Duration;
  delay?: Duration;
  key?: string;
  on_conflict?: OnConflict;
  priority?: number;
  headers?: Record<string, string>;
  max_attempts?: number;
  retry?: Retry;
  group?: string;
  misfire?: "skip" | "once" | "all";
  misfire_limit?: number;
  grace?: Duration;
}

export interface Schedule extends NewSchedule {
  name: string;
  paused: boolean;
  fired: number;
  created_ms: number;
  next_ms?: number;
  last_ms?: number;
  problem?: string;
  /** When the jobs are put, in words. */
  explanation?: string;
}

export interface Clock {
  now: string;
  now_ms: number;
  manual: boolean;
}

export interface Health {
  status: string;
  version: string;
}

export interface Percentiles {
  count: number;
  p50_us: number;
  p99_us: number;
  p999_us: number;
  max_us: number;
}

/** Statistics. Tokens that are limited to some queues see only the required members. */
export interface Stats {
  durability: string;
  horizon: Duration;
  queues: number;
  pending: number;
  leased: number;
  put?: number | null;
  delivered?: number | null;
  acked?: number | null;
  failed?: number | null;
  released?: number | null;
  expired?: number | null;
  died?: number | null;
  cancelled?: number | null;
  kicked?: number | null;
  commits?: number | null;
  failures?: number | null;
  damaged?: number | null;
  in_memory?: number | null;
  disk_bytes?: number | null;
  lateness?: Percentiles | null;
  commit_time?: Percentiles | null;
  /** What happened lately, if `stats` was given a window. */
  recent?: Activity;
}

/** An event of the stream. `id` resumes the stream after this event. */
export interface Event {
  event: string;
  id?: string;
  queue?: string;
  job?: string;
  key?: string;
  /** The error of an attempt that failed or whose lease expired: its first 256 bytes. */
  error?: string;
  state?: JobState;
  at_ms?: number;
  due_ms?: number;
}

/** Which events to follow: those that match every member that is given. */
export interface EventFilter {
  /** The names of the events, such as `["failed", "dead"]`. */
  event?: string[];
  /** Events after which the job is in this state. */
  state?: JobState;
  key?: string;
  key_prefix?: string;
  /** A part of the error of a failure, in any case of ASCII letters. */
  error?: string;
}

/** A problem document of RFC 9457. `code` is for programs. */
export interface Problem {
  status: number;
  code: string;
  detail: string;
  title?: string;
  field?: string;
  id?: string;
  instance?: string;
  request_id?: string;
}

/** The answer to one item of a batch. */
export type Result<T> = { ok: T; error?: undefined } | { ok?: undefined; error: Problem };

const UNITS: Record<string, number> = {
  ms: 1, s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000, w: 604_800_000,
};

/** Returns a duration in milliseconds. */
export function milliseconds(duration: Duration): number {
  if (typeof duration === "number") return duration;
  if (!/^(\d+(ms|[smhdw])\s*)+$/.test(duration)) {
    throw new RangeError(`"${duration}" is not a duration: write it like "1h30m"`);
  }
  let sum = 0;
  for (const [, number, unit] of duration.matchAll(/(\d+)(ms|[smhdw])/g)) {
    sum += Number(number) * UNITS[unit!]!;
  }
  return sum;
}
