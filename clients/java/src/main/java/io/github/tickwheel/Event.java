package io.github.tickwheel;

import java.time.Instant;

/**
 * A change of a job.
 *
 * @param event what happened: {@code put}, {@code replaced}, {@code rescheduled}, {@code leased},
 *     {@code extended}, {@code acked}, {@code failed}, {@code expired}, {@code released}, {@code
 *     dead}, {@code cancelled} or {@code kicked}; or {@code reset} if events may be missing before
 *     this one. A reset has no job: list the jobs again.
 * @param queue the queue
 * @param job the job
 * @param key the key of the job
 * @param error the error of an attempt that failed or whose lease expired: its first 256 bytes
 * @param state the new state of the job
 * @param at when it happened
 * @param due when the job is due, if it waits
 * @param until when the lease expires, if a worker has the job
 * @param attempts the number of deliveries, if the job is leased or dead
 * @param by the job that replaced this one
 * @param id the position in the stream
 */
public record Event(
        String event, String queue, String job, String key, String error, State state, Instant at, Instant due,
        Instant until, Integer attempts, String by, String id)
        implements WireType {}
