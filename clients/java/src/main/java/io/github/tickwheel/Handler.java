package io.github.tickwheel;

/** Performs jobs and returns results. */
@FunctionalInterface
public interface Handler {
    /**
     * Performs a job. The worker acknowledges the job with the value as its result, or fails it with
     * the message of the exception. A {@link JobException} says more. The thread is interrupted when
     * the lease is lost, and when a shutdown takes too long.
     *
     * @param job the job
     * @return the result, a value with a form in JSON; {@code null} for none
     * @throws Exception if the attempt failed
     */
    Object handle(Job job) throws Exception;
}
