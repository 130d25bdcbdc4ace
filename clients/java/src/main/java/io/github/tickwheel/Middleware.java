package io.github.tickwheel;

/** Wraps the handlers of a worker, for example to log or to measure. */
@FunctionalInterface
public interface Middleware {
    /**
     * Performs a job by calling the next handler.
     *
     * @param job the job
     * @param next the wrapped handler
     * @return the result of the job
     * @throws Exception if the attempt failed
     */
    Object handle(Job job, Handler next) throws Exception;
}
