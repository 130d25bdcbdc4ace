package io.github.tickwheel;

import java.time.Duration;
import java.util.List;

/**
 * The delay before a failed job is retried: exactly one of the components is not {@code null}.
 *
 * @param fixed the same delay each time
 * @param exponential a delay that doubles each time
 * @param list one delay for each retry; the last one repeats
 */
public record Retry(Duration fixed, Exponential exponential, List<Duration> list) implements WireType {
    /**
     * A delay that doubles with each attempt.
     *
     * @param first the delay after the first attempt
     * @param max the longest delay, without jitter
     * @param jitter a random addition of up to this many percent
     */
    public record Exponential(Duration first, Duration max, int jitter) implements WireType {}

    /**
     * Returns the same delay for each retry.
     *
     * @param delay the delay
     * @return the policy
     */
    public static Retry fixed(Duration delay) {
        return new Retry(delay, null, null);
    }

    /**
     * Returns a delay that doubles with each attempt.
     *
     * @param first the delay after the first attempt
     * @param max the longest delay, without jitter
     * @param jitter a random addition of up to this many percent
     * @return the policy
     */
    public static Retry exponential(Duration first, Duration max, int jitter) {
        return new Retry(null, new Exponential(first, max, jitter), null);
    }

    /**
     * Returns one delay for each retry; the last one repeats.
     *
     * @param delays the delays
     * @return the policy
     */
    public static Retry list(Duration... delays) {
        return new Retry(null, null, List.of(delays));
    }
}
