package io.github.tickwheel;

import java.time.Instant;

/**
 * A job that is leased to a worker.
 *
 * @param job the job
 * @param token the lease token, which fences the requests of the worker
 * @param until when the lease expires
 */
public record Delivery(Job job, String token, Instant until) implements WireType {}
