package io.github.tickwheel;

import java.time.Instant;

/**
 * The answer to a put.
 *
 * @param id the new job, or the one that was kept
 * @param queue the queue of the job
 * @param outcome what the put did
 * @param replaced the job that was cancelled, if one was replaced
 * @param due when the job is due
 */
public record PutResult(String id, String queue, Outcome outcome, String replaced, Instant due)
        implements WireType {}
