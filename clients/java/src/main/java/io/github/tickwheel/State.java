package io.github.tickwheel;

/** Where a job is in its life. */
public enum State implements WireType {
    /** The job is not due yet. */
    SCHEDULED,
    /** The job is due and waits for a worker. */
    READY,
    /** A worker has the job. */
    LEASED,
    /** The last attempt failed. */
    DEAD,
    /** A worker acknowledged the job. */
    DONE,
    /** The job was cancelled or replaced. */
    CANCELLED
}
