package io.github.tickwheel;

/** Performs jobs that have no result. */
@FunctionalInterface
public interface Action {
    /**
     * Performs a job, as {@link Handler#handle} without a result.
     *
     * @param job the job
     * @throws Exception if the attempt failed
     */
    void perform(Job job) throws Exception;
}
