import type { Duration, Problem } from "./types.js";

/** The base of all errors of this library. */
export class TickwheelError extends Error {
  override get name(): string {
    return this.constructor.name;
  }
}

/** The server refused a request. `code` says why, for programs. */
export class ApiError extends TickwheelError {
  readonly status: number;
  readonly code: string;
  readonly field: string | undefined;
  /** The job that is in the way, if the server named one. */
  readonly id: string | undefined;

  constructor(
    readonly problem: Problem,
    /** Seconds until the request may be sent again, if the server said so. */
    readonly retryAfter?: number,
  ) {
    super(`${problem.code} (${problem.status}): ${problem.detail}`);
    this.status = problem.status;
    this.code = problem.code;
    this.field = problem.field;
    this.id = problem.id;
  }

  /** Whether there is no such job, queue or schedule. */
  get isNotFound(): boolean {
    return this.status === 404;
  }

  /** Whether the lease expired or was released, so that another worker may have the job. */
  get isStaleLease(): boolean {
    return this.code === "stale-lease";
  }
}

/** The server cannot be reached, or the connection broke. */
export class ConnectionError extends TickwheelError {
  constructor(
    message: string,
    /** Whether the request may have reached the server. */
    readonly sent: boolean,
    options?: ErrorOptions,
  ) {
    super(message, options);
  }
}

/** A webhook is not signed with the secret, or it is too old. */
export class SignatureError extends TickwheelError {}

/** Thrown by a handler: the attempt failed. The job is retried after `delay`, by default as its
 * policy says. */
export class RetryJob extends TickwheelError {
  constructor(message = "", readonly delay?: Duration) {
    super(message);
  }
}

/** Thrown by a handler: the attempt failed, and no other one can succeed. */
export class DeadJob extends TickwheelError {}

/** Thrown by a handler: the job goes back to its queue, which does not count as an attempt. */
export class ReleaseJob extends TickwheelError {
  constructor(readonly delay?: Duration) {
    super("released");
  }
}
