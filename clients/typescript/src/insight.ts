/**
 * The types of error groups, of changes to every job that matches, and of dashboards. A number that
 * is not known is `null`.
 */

import type { Duration, JobState, Timestamp } from "./types.js";

/** Jobs whose last attempt failed with the same error, apart from numbers and ids. */
export interface ErrorGroup {
  /** The first line of the error, with `#` for numbers, ids, addresses and times. */
  error: string;
  count: number;
  dead: number;
  /** Jobs that will be tried again, or are being tried. */
  retrying: number;
  newest_ms: number | null;
  oldest_ms: number | null;
  /** One of the jobs. */
  example: string;
  queue: string;
  example_error: string;
}

export interface ErrorGroups {
  /** Those with most jobs first. */
  groups: ErrorGroup[];
  /** The number of jobs of groups that are left out. */
  others: number;
  /** Whether all jobs were looked at; at most 500,000 are. */
  complete: boolean;
}

/** Which jobs of a queue match: those that match every member that is given. */
export interface JobFilter {
  state?: JobState;
  /** A part of the last error, in any case of ASCII letters. */
  error?: string;
  /** `error` of an `ErrorGroup`. */
  error_group?: string;
  key?: string;
  key_prefix?: string;
  due_from?: Timestamp;
  due_to?: Timestamp;
}

/** A change of every job of a queue that matches. */
export interface BulkChange {
  action: "retry" | "run" | "reschedule" | "cancel";
  /** All jobs that the action can change, if it is absent. */
  filter?: JobFilter;
  /** For `reschedule`: how long from now the jobs are due. */
  delay?: Duration;
  /** For `reschedule`: when the jobs are due. */
  due?: Timestamp;
  /** Counts the jobs and changes nothing. */
  dry_run?: boolean;
  /** The largest number of jobs of one request; 1,000 by default. */
  limit?: number;
  /** `next` of the request before. */
  cursor?: string;
}

/** What a change did. */
export interface BulkResult {
  matched: number;
  changed: number;
  skipped: number;
  /** Why the first job was skipped. */
  why?: string;
  /** The `cursor` of the next request; `null` after the last one. */
  next: string | null;
}

/** One thing that is wrong. */
export interface Trouble {
  code: "store-failing" | "disk-nearly-full" | "damaged-rows" | "jobs-wait" | "target-held";
  message: string;
  queue: string | null;
  target: string | null;
}

/** Jobs in each second, averaged over the last 10. */
export interface Rates {
  put: number;
  delivered: number;
  acked: number;
  failed: number;
  died: number;
}

/** How many waiting jobs become due when. The ranges do not overlap. */
export interface Upcoming {
  at_ms: number;
  ready: number;
  minute: number;
  hour: number;
  day: number;
  month: number;
  later: number;
}

/** A queue at one glance. */
export interface QueueOverview {
  name: string;
  paused: boolean;
  target: string | null;
  jobs: Record<JobState, number>;
  more_ready: boolean;
  /** Ready jobs that a pause or a limit holds back. */
  held: number;
  rates: Rates | null;
  oldest_ready_ms: number | null;
  waiting_ms: number | null;
  lateness_p50_ms: number | null;
  lateness_p99_ms: number | null;
  /** Workers that reserved jobs in the last minute. */
  workers: number | null;
  upcoming: Upcoming | null;
  /** The share of the queue's limits that is used, from 0 to 1. */
  pacing_utilisation: number | null;
}

/** The numbers of all queues that the token may see. */
export interface OverviewTotals {
  queues: number;
  paused_queues: number;
  jobs: Record<JobState, number>;
  held: number;
  rates: Rates | null;
  lateness_p50_ms: number | null;
  lateness_p99_ms: number | null;
  workers: number | null;
  upcoming: Upcoming | null;
  disk_bytes: number | null;
  disk_free_bytes: number | null;
}

/** Everything at one glance. */
export interface Overview {
  at: string;
  at_ms: number;
  /** `all on time`, or the worst trouble. */
  summary: string;
  health: Trouble[];
  /** `null` while the store does not answer. */
  totals: OverviewTotals | null;
  queues: QueueOverview[];
  queues_left_out: number;
}

type Column = (number | null)[];

/** What happened in the last minutes or hours, in columns: the values at one index belong together. */
export interface History {
  window: "15m" | "24h";
  step_ms: number;
  queue: string | null;
  /** Whether the server keeps a history of this queue; the columns are empty if not. */
  tracked: boolean;
  /** The end of the time that each point covers. */
  at_ms: number[];
  put: Column;
  delivered: Column;
  acked: Column;
  failed: Column;
  died: Column;
  lateness_p50_ms: Column;
  lateness_p99_ms: Column;
  lateness_max_ms: Column;
  scheduled: Column;
  ready: Column;
  leased: Column;
  dead: Column;
  pacing_utilisation: Column;
}

/** One level of the timing wheel. Slot `s` begins at `start_ms + s * slot_ms`; the last three members
 * are columns with the values of one slot at one index. */
export interface WheelLevel {
  level: number;
  slots: number;
  slot_ms: number;
  position: number;
  start_ms: number;
  occupied: number[];
  jobs: number[];
  leases: number[];
}

/** The timing wheel: how many jobs and leases each slot holds. */
export interface Wheel {
  at_ms: number;
  horizon_ms: number;
  levels: WheelLevel[];
  ready: number;
  /** Jobs that are on disk only. */
  beyond: number;
}
