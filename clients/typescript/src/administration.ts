/** The types of targets, groups, imports and recent activity. Names are those of the HTTP API. */

import type { Duration, Pacing, Percentiles, Put, Retry, Timestamp } from "./types.js";

/**
 * The settings of a target: an HTTP endpoint that gets the jobs of queues. `putTarget` gives absent
 * ones their defaults and needs the `url`; `patchTarget` leaves them as they are.
 */
export interface TargetSettings {
  url?: string;
  method?: "POST" | "PUT" | "PATCH" | "DELETE" | "GET";
  headers?: Record<string, string>;
  /** Names of job headers that each request carries. */
  forward?: string[];
  /** From 1 ms to 30 min; 10 s by default. */
  timeout?: Duration;
  /** Certificates in PEM to trust instead of the public ones. */
  ca?: string;
  pacing?: Pacing;
  retry?: Retry;
  max_attempts?: number;
}

export type TargetState = "active" | "slow" | "held" | "stopped" | "paused";

/** Why a target is not active or a request to it failed, for programs. */
export interface TargetCause {
  code:
    | "answered" | "redirected" | "timeout" | "unresolved" | "denied" | "unreachable" | "tls"
    | "disconnected" | "resumed" | "other";
  /** The value that belongs to the code: the status and the body, the timeout, an address, … */
  detail?: string;
  /** Whether a request has succeeded since, so that the rate grows again. */
  recovering?: boolean;
}

/** A target's response to a job, or why there was none. */
export interface TargetResponse {
  /** When the request ended. */
  at_ms: number;
  duration_ms: number;
  /** What became of the job: delivered, failed, dead, held or stopped. */
  verdict: string;
  status?: number;
  /** The beginning of the body. */
  excerpt?: string;
  /** Why there was no response. */
  error?: string;
  /** The same for programs. */
  cause?: TargetCause;
}

export interface Target {
  name: string;
  state: TargetState;
  /** Why the target is not active. */
  reason?: string;
  /** The same for programs. */
  cause?: TargetCause;
  /** When a held target is tried again with one job. */
  next_probe_ms?: number;
  queues: string[];
  in_flight: number;
  counts: { delivered: number; failed: number; held: number };
  /** The last 5 responses to jobs since the server started, the newest first. */
  responses?: TargetResponse[];
  settings: TargetSettings;
  /** The new signing secret; only the answer to the request that made it has it. */
  secret?: string;
  secrets: { created_ms: number; expires_ms?: number }[];
}

/** One request to a target, and its response. */
export interface TargetTest {
  id: string;
  method: string;
  url: string;
  request_headers: { name: string; value: string }[];
  request_body: string;
  address?: string;
  status?: number;
  response_headers?: { name: string; value: string }[];
  response_body?: string;
  error?: string;
  /** The same for programs. */
  cause?: TargetCause;
  duration_ms: number;
  /** What would become of a job: delivered, failed, dead, held or stopped. */
  verdict: string;
}

/** A change of the state of a target; `state` is absent if the target was removed. */
export interface TargetEvent {
  event: string;
  target?: string;
  state?: TargetState;
  reason?: string;
  /** The reason for programs. */
  cause?: TargetCause;
  next_probe_ms?: number;
  at_ms?: number;
}

/** A group of a queue: its settings and the number of its live jobs. */
export interface Group {
  name: string;
  paused: boolean;
  waiting: number;
  running: number;
  /** Due jobs that the pause or a limit of the group holds back. */
  held: number;
  /** The group's own limits; absent where those of the queue hold. */
  pacing?: Pacing;
}

export interface GroupPage {
  groups: Group[];
  /** The `page` of the next page; `null` on the last one. */
  next: string | null;
}

/** A job of another server, with what has happened to it there. */
export interface ImportedJob {
  /** The job as it would be put, with its id and due time. */
  put: Put;
  created: Timestamp;
  attempts?: number;
  last_error?: string;
  finished?: { state: "dead" | "done" | "cancelled"; at: Timestamp };
}

/** What happened in a window of time up to now, in all queues. */
export interface Activity {
  since_ms: number;
  window_ms: number;
  put: number;
  delivered: number;
  acked: number;
  failed: number;
  expired: number;
  released: number;
  died: number;
  cancelled: number;
  kicked: number;
  lateness: Percentiles;
}
