package io.github.tickwheel;

import java.time.Duration;

/**
 * How an attempt failed.
 *
 * @param error what went wrong; kept with the job, cut to 4,096 bytes
 * @param delay retry after this delay; {@code null} follows the retry policy of the job
 * @param dead do not retry
 */
public record Failure(String error, Duration delay, boolean dead) {
    /**
     * Returns a failure that is retried by the policy of the job.
     *
     * @param error what went wrong
     * @return the failure
     */
    public static Failure of(String error) {
        return new Failure(error, null, false);
    }

    /**
     * Returns a failure that is retried after a delay, if an attempt is left.
     *
     * @param error what went wrong
     * @param delay the delay
     * @return the failure
     */
    public static Failure retryAfter(String error, Duration delay) {
        return new Failure(error, delay, false);
    }

    /**
     * Returns a failure that is not retried.
     *
     * @param error what went wrong
     * @return the failure
     */
    public static Failure dead(String error) {
        return new Failure(error, null, true);
    }
}
