package io.github.tickwheel;

import java.time.Duration;
import java.time.Instant;
import java.util.Map;

/**
 * A change of every job of a queue that matches. Each request changes up to {@code limit} jobs.
 *
 * @param action what is done to each job
 * @param filter which jobs, of those that the action can change
 * @param delay for {@link Action#RESCHEDULE}: how long from now the jobs are due
 * @param due for {@link Action#RESCHEDULE}: when the jobs are due
 * @param dryRun whether to count the jobs and change nothing
 * @param limit the largest number of jobs of one request; {@code null} for 1,000
 * @param cursor {@link Result#next} of the request before
 */
public record BulkChange(
        Action action, JobFilter filter, Duration delay, Instant due, boolean dryRun, Integer limit, String cursor) {
    /** What a change does to each job. */
    public enum Action implements WireType {
        /** Makes dead jobs ready again, with all their attempts. */
        RETRY,
        /** Makes scheduled jobs ready now. */
        RUN,
        /** Gives scheduled and ready jobs another due time. */
        RESCHEDULE,
        /** Cancels scheduled and ready jobs; with the state {@link State#LEASED} those that workers have. */
        CANCEL
    }

    /**
     * What a change did.
     *
     * @param matched jobs that matched
     * @param changed jobs among them that were changed; 0 in a dry run
     * @param skipped jobs among them that could not be changed
     * @param why why the first of these could not be changed
     * @param next the cursor of the next request; {@code null} if this was the last
     */
    public record Result(long matched, long changed, long skipped, String why, String next) implements WireType {}

    /**
     * Returns a change of the jobs that match.
     *
     * @param action what is done to each job; {@link Action#RESCHEDULE} also needs {@link #delay(Duration)}
     *     or {@link #due(Instant)}
     * @param filter which jobs
     * @return the change
     */
    public static BulkChange of(Action action, JobFilter filter) {
        return new BulkChange(action, filter, null, null, false, null, null);
    }

    /**
     * Sets how long from now the jobs are due.
     *
     * @param delay the delay
     * @return the changed request
     */
    public BulkChange delay(Duration delay) {
        return Wire.with(this, "delay", delay);
    }

    /**
     * Sets when the jobs are due.
     *
     * @param due the time
     * @return the changed request
     */
    public BulkChange due(Instant due) {
        return Wire.with(this, "due", due);
    }

    /**
     * Makes this a dry run: it counts the jobs and changes nothing.
     *
     * @return the changed request
     */
    public BulkChange asDryRun() {
        return Wire.with(this, "dryRun", true);
    }

    /**
     * Sets the largest number of jobs of one request.
     *
     * @param limit the number, at most 1,000
     * @return the changed request
     */
    public BulkChange limit(int limit) {
        return Wire.with(this, "limit", limit);
    }

    /**
     * Sets where the request begins.
     *
     * @param cursor {@link Result#next} of the request before
     * @return the changed request
     */
    public BulkChange cursor(String cursor) {
        return Wire.with(this, "cursor", cursor);
    }

    Map<String, Object> fields() {
        return Caller.fields(
                "action", action, "filter", filter.fields(), "delay", Caller.millis(delay), "due", Caller.millis(due),
                "dry_run", dryRun, "limit", limit, "cursor", cursor);
    }
}
