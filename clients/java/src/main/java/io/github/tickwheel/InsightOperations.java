package io.github.tickwheel;

import java.time.Duration;

/** Why jobs fail, changes to every job that matches a filter, and the numbers of dashboards. */
abstract class InsightOperations extends QueueOperations {
    InsightOperations(Transport transport, String token, Duration timeout, RetryPolicy retry) {
        super(transport, token, timeout, retry);
    }

    /**
     * Returns why jobs fail: their last errors, grouped.
     *
     * @param queue the queue; {@code null} for all queues
     * @param limit the largest number of groups, at most 1,000; {@code null} for 100
     * @return the groups
     */
    public ErrorGroups errors(String queue, Integer limit) {
        Call call = queue == null ? new Call("GET", "v1", "errors") : new Call("GET", "v1", "queues", queue, "errors");
        return call(ErrorGroups.class, call.query(fields("limit", limit)));
    }

    /**
     * Changes jobs of a queue that match: one step of up to {@link BulkChange#limit} jobs. The next step
     * has {@link BulkChange.Result#next} as its cursor.
     *
     * @param queue the queue
     * @param change the change
     * @return what this step did
     */
    public BulkChange.Result changeMatching(String queue, BulkChange change) {
        Call call = new Call("POST", "v1", "queues", queue, "bulk").body(change.fields());
        call.once = !change.dryRun();
        return call(BulkChange.Result.class, call);
    }

    /**
     * Changes every job of a queue that matches, step by step. If a step fails, the jobs of earlier
     * steps stay changed.
     *
     * @param queue the queue
     * @param change the change
     * @return the sums of all steps, and why the first job was skipped
     */
    public BulkChange.Result changeAllMatching(String queue, BulkChange change) {
        BulkChange.Result sums = new BulkChange.Result(0, 0, 0, null, null);
        for (BulkChange next = change; ; ) {
            BulkChange.Result step = changeMatching(queue, next);
            sums = new BulkChange.Result(
                    sums.matched() + step.matched(), sums.changed() + step.changed(),
                    sums.skipped() + step.skipped(), sums.why() == null ? step.why() : sums.why(), null);
            if (step.next() == null) {
                return sums;
            }
            next = next.cursor(step.next());
        }
    }

    /**
     * Returns everything at one glance: health, totals, and the numbers of each queue.
     *
     * @return the overview
     */
    public Overview overview() {
        return call(Overview.class, new Call("GET", "v1", "overview"));
    }

    /**
     * Returns what happened in the last 15 minutes or 24 hours.
     *
     * @param window how far back
     * @param queue the queue; {@code null} for all queues
     * @return the history
     */
    public History history(History.Window window, String queue) {
        return call(History.class, new Call("GET", "v1", "history").query(fields("window", window.text, "queue", queue)));
    }

    /**
     * Returns the timing wheel: how many jobs and leases each slot holds.
     *
     * @return the wheel
     */
    public Wheel wheel() {
        return call(Wheel.class, new Call("GET", "v1", "wheel"));
    }
}
