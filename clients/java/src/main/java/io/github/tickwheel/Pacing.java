package io.github.tickwheel;

import java.time.Duration;

/**
 * Limits of deliveries. A component that is {@code null} sets no limit.
 *
 * @param starts the maximum number of deliveries in any window
 * @param window the length of the window
 * @param concurrency the maximum number of leased jobs, or of requests to a target at once
 */
public record Pacing(Integer starts, Duration window, Integer concurrency) implements WireType {
    /** No limits. */
    public static final Pacing NONE = new Pacing(null, null, null);

    /**
     * Returns a limit of deliveries in any window.
     *
     * @param starts the maximum number of deliveries
     * @param window the length of the window
     * @return the limit
     */
    public static Pacing rate(int starts, Duration window) {
        return new Pacing(starts, window, null);
    }

    /**
     * Returns a limit of leased jobs.
     *
     * @param concurrency the maximum number of leased jobs
     * @return the limit
     */
    public static Pacing concurrency(int concurrency) {
        return new Pacing(null, null, concurrency);
    }

    /**
     * Returns these limits with another limit of leased jobs.
     *
     * @param concurrency the maximum number of leased jobs
     * @return the limits
     */
    public Pacing withConcurrency(int concurrency) {
        return new Pacing(starts, window, concurrency);
    }
}
