package io.github.tickwheel;

import java.time.Duration;

/**
 * What a reserve asks for. A component that is {@code null} stands for its default.
 *
 * @param limit the maximum number of jobs, up to 1,000; defaults to 1
 * @param lease the duration of the lease; defaults to that of the queue
 * @param maxWait how long to wait if no job is ready, at most 60 s; defaults to no wait
 * @param worker the name of the worker, which is shown with its jobs and in their history
 */
public record ReserveOptions(Integer limit, Duration lease, Duration maxWait, String worker) {
    /** One job, without waiting. */
    public static final ReserveOptions ONE = new ReserveOptions(null, null, null, null);

    /**
     * Sets the maximum number of jobs.
     *
     * @param limit the number, up to 1,000
     * @return the changed options
     */
    public ReserveOptions limit(int limit) {
        return Wire.with(this, "limit", limit);
    }

    /**
     * Sets the duration of the lease.
     *
     * @param lease the duration
     * @return the changed options
     */
    public ReserveOptions lease(Duration lease) {
        return Wire.with(this, "lease", lease);
    }

    /**
     * Sets how long to wait if no job is ready.
     *
     * @param maxWait at most 60 s
     * @return the changed options
     */
    public ReserveOptions maxWait(Duration maxWait) {
        return Wire.with(this, "maxWait", maxWait);
    }

    /**
     * Sets the name of the worker.
     *
     * @param worker 1 to 128 bytes without control characters
     * @return the changed options
     */
    public ReserveOptions worker(String worker) {
        return Wire.with(this, "worker", worker);
    }
}
