package io.github.tickwheel;

import java.time.Duration;
import java.util.concurrent.ThreadLocalRandom;

/**
 * How a client repeats requests that the server refused for now (status 429 and 503) or that did not
 * reach it.
 *
 * @param max how often a request is repeated; 0 never repeats
 * @param first the wait before the first repetition, which then doubles
 * @param limit the longest wait; a longer {@code Retry-After} of the server is still honoured
 */
public record RetryPolicy(int max, Duration first, Duration limit) {
    /** Up to 6 repetitions, from 100 ms up to 5 s apart. */
    public static final RetryPolicy DEFAULT = new RetryPolicy(6, Duration.ofMillis(100), Duration.ofSeconds(5));

    /** Returns the back-off: doubling with jitter, and at least what the server asked for. */
    Duration wait(int attempt, Throwable error) {
        long backoff = Math.min(first.toNanos() << Math.min(attempt, 20), limit.toNanos());
        Duration wait = Duration.ofNanos(backoff / 2 + ThreadLocalRandom.current().nextLong(backoff / 2 + 1));
        boolean isLonger = error instanceof ProblemException problem && problem.retryAfter().compareTo(wait) > 0;
        return isLonger ? ((ProblemException) error).retryAfter() : wait;
    }

    /** Waits before the next attempt. */
    void sleep(int attempt, Throwable error) throws InterruptedException {
        Duration wait = wait(attempt, error);
        Thread.sleep(wait.toMillis(), wait.toNanosPart() % 1_000_000);
    }
}
