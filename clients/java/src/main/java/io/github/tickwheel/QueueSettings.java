package io.github.tickwheel;

import java.time.Duration;

/**
 * The settings of a queue. In a request, {@code null} stands for the default ({@link
 * Client#putSettings}) or for no change ({@link Client#patchSettings}).
 *
 * <pre>{@code QueueSettings.NONE.withLease(Duration.ofMinutes(1)).withMaxAttempts(5)}</pre>
 *
 * @param lease the duration of a lease, where the worker names none
 * @param maxAttempts the maximum number of attempts, where the job names none
 * @param retry the delay before a retry, where the job names none
 * @param pacing the limits of the whole queue
 * @param groupPacing the limits of each group
 * @param fairGroups whether groups are served in turn, one job each
 * @param retention how long finished jobs are kept
 * @param order the order of delivery
 * @param target the target that gets the jobs; in a patch, an empty text removes it
 */
public record QueueSettings(
        Duration lease, Integer maxAttempts, Retry retry, Pacing pacing, Pacing groupPacing,
        Boolean fairGroups, Retention retention, Order order, String target)
        implements WireType {
    /** Settings without any value. */
    public static final QueueSettings NONE =
            new QueueSettings(null, null, null, null, null, null, null, null, null);

    /**
     * Sets the duration of a lease, where the worker names none.
     *
     * @param lease the duration
     * @return the changed settings
     */
    public QueueSettings withLease(Duration lease) {
        return Wire.with(this, "lease", lease);
    }

    /**
     * Sets the maximum number of attempts, where the job names none.
     *
     * @param maxAttempts the number
     * @return the changed settings
     */
    public QueueSettings withMaxAttempts(int maxAttempts) {
        return Wire.with(this, "maxAttempts", maxAttempts);
    }

    /**
     * Sets the delay before a retry, where the job names none.
     *
     * @param retry the policy
     * @return the changed settings
     */
    public QueueSettings withRetry(Retry retry) {
        return Wire.with(this, "retry", retry);
    }

    /**
     * Sets the limits of the whole queue.
     *
     * @param pacing the limits; {@link Pacing#NONE} removes them
     * @return the changed settings
     */
    public QueueSettings withPacing(Pacing pacing) {
        return Wire.with(this, "pacing", pacing);
    }

    /**
     * Sets the limits of each group.
     *
     * @param groupPacing the limits; {@link Pacing#NONE} removes them
     * @return the changed settings
     */
    public QueueSettings withGroupPacing(Pacing groupPacing) {
        return Wire.with(this, "groupPacing", groupPacing);
    }

    /**
     * Sets whether groups are served in turn, one job each.
     *
     * @param fairGroups whether they are
     * @return the changed settings
     */
    public QueueSettings withFairGroups(boolean fairGroups) {
        return Wire.with(this, "fairGroups", fairGroups);
    }

    /**
     * Sets how long finished jobs are kept.
     *
     * @param retention the bounds
     * @return the changed settings
     */
    public QueueSettings withRetention(Retention retention) {
        return Wire.with(this, "retention", retention);
    }

    /**
     * Sets the order of delivery.
     *
     * @param order the order
     * @return the changed settings
     */
    public QueueSettings withOrder(Order order) {
        return Wire.with(this, "order", order);
    }

    /**
     * Sets the target that gets the jobs.
     *
     * @param target the name of the target; an empty text removes it
     * @return the changed settings
     */
    public QueueSettings withTarget(String target) {
        return Wire.with(this, "target", target);
    }
}
