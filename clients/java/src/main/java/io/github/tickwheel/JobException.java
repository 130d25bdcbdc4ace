package io.github.tickwheel;

import java.time.Duration;

/**
 * What a {@link Handler} throws to say what happens to its job.
 *
 * <pre>{@code throw JobException.retry("the shop is busy", Duration.ofSeconds(10));}</pre>
 */
public final class JobException extends Exception {
    private static final long serialVersionUID = 1;

    private final Duration delay;
    private final boolean dead;
    private final boolean release;

    private JobException(String message, Duration delay, boolean dead, boolean release) {
        super(message);
        this.delay = delay;
        this.dead = dead;
        this.release = release;
    }

    /**
     * Returns an exception that fails the job and retries it after a delay, if an attempt is left.
     *
     * @param error what went wrong
     * @param delay the delay
     * @return the exception, to be thrown
     */
    public static JobException retry(String error, Duration delay) {
        return new JobException(error, delay, false, false);
    }

    /**
     * Returns an exception that fails the job for good.
     *
     * @param error what went wrong
     * @return the exception, to be thrown
     */
    public static JobException dead(String error) {
        return new JobException(error, null, true, false);
    }

    /**
     * Returns an exception that gives the job back without counting an attempt.
     *
     * @param delay when the job is ready again
     * @return the exception, to be thrown
     */
    public static JobException release(Duration delay) {
        return new JobException("released", delay, false, true);
    }

    boolean isRelease() {
        return release;
    }

    Duration delay() {
        return delay;
    }

    Failure failure() {
        return new Failure(getMessage(), delay, dead);
    }
}
