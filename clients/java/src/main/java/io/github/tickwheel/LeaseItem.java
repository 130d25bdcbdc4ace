package io.github.tickwheel;

import java.time.Duration;

/**
 * A leased job in a batch. The components after {@code token} belong to one request each.
 *
 * @param id the job
 * @param token the lease token of its delivery
 * @param result {@link Client#ackMany}: the result; {@code null} for none
 * @param error {@link Client#failMany}: what went wrong
 * @param delay {@link Client#failMany} and {@link Client#releaseMany}: when the job is ready again
 * @param dead {@link Client#failMany}: do not retry
 * @param lease {@link Client#extendMany}: the new duration of the lease, from now
 */
public record LeaseItem(
        String id, String token, Object result, String error, Duration delay, boolean dead, Duration lease) {
    /**
     * Returns an item for a delivery.
     *
     * @param delivery the delivery
     * @return the item
     */
    public static LeaseItem of(Delivery delivery) {
        return of(delivery.job().id(), delivery.token());
    }

    /**
     * Returns an item for a leased job.
     *
     * @param id the job
     * @param token the lease token
     * @return the item
     */
    public static LeaseItem of(String id, String token) {
        return new LeaseItem(id, token, null, null, null, false, null);
    }

    /**
     * Sets the result.
     *
     * @param result a value with a form in JSON
     * @return the changed item
     */
    public LeaseItem result(Object result) {
        return Wire.with(this, "result", result);
    }

    /**
     * Sets what went wrong.
     *
     * @param error the text
     * @return the changed item
     */
    public LeaseItem error(String error) {
        return Wire.with(this, "error", error);
    }

    /**
     * Sets when the job is ready again.
     *
     * @param delay the delay from now
     * @return the changed item
     */
    public LeaseItem delay(Duration delay) {
        return Wire.with(this, "delay", delay);
    }

    /**
     * Sets that a failed job is not retried.
     *
     * @return the changed item
     */
    public LeaseItem withoutRetry() {
        return new LeaseItem(id, token, result, error, delay, true, lease);
    }

    /**
     * Sets the new duration of the lease.
     *
     * @param lease the duration, from now
     * @return the changed item
     */
    public LeaseItem lease(Duration lease) {
        return Wire.with(this, "lease", lease);
    }
}
