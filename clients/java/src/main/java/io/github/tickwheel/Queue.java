package io.github.tickwheel;

import java.time.Instant;
import java.util.List;

/**
 * A queue with its numbers and settings.
 *
 * @param name the name
 * @param paused whether deliveries are paused
 * @param jobs the number of jobs in each state
 * @param moreReady whether more jobs are ready than memory holds; those count as scheduled
 * @param oldestReady when the job was due that has been ready for the longest time
 * @param counters what has happened since the queue was created
 * @param lateness how long after their due time jobs were delivered
 * @param settings the settings
 */
public record Queue(
        String name, boolean paused, Counts jobs, boolean moreReady, Instant oldestReady,
        Counters counters, Percentiles lateness, QueueSettings settings)
        implements WireType {
    /**
     * The number of jobs in each state.
     *
     * @param scheduled jobs that are not due yet
     * @param ready jobs that wait for a worker
     * @param leased jobs that workers have
     * @param dead jobs whose last attempt failed
     * @param done acknowledged jobs that are kept
     * @param cancelled cancelled jobs that are kept
     */
    public record Counts(long scheduled, long ready, long leased, long dead, long done, long cancelled)
            implements WireType {}

    /**
     * What has happened in a queue since it was created. A restart does not reset these numbers.
     *
     * @param put jobs put
     * @param delivered deliveries to workers
     * @param acked jobs acknowledged
     * @param failed attempts that workers reported as failed
     * @param expired leases that expired
     * @param released jobs released by workers
     * @param died jobs that died
     * @param cancelled jobs cancelled or replaced
     * @param kicked dead jobs made ready again
     */
    public record Counters(
            long put, long delivered, long acked, long failed, long expired, long released, long died,
            long cancelled, long kicked)
            implements WireType {}

    /**
     * A group of a queue: its settings and the number of its live jobs.
     *
     * @param name the name
     * @param paused whether deliveries of the group are paused
     * @param waiting jobs that wait for their time or for a worker, held ones included
     * @param running jobs that workers have
     * @param held due jobs that the pause or a limit of the group holds back
     * @param pacing the group's own limits; {@code null} where those of the queue hold
     */
    public record Group(String name, boolean paused, long waiting, long running, long held, Pacing pacing)
            implements WireType {}

    /**
     * A page of a list of groups.
     *
     * @param groups the groups
     * @param next the page after this one; {@code null} on the last
     */
    public record GroupPage(List<Group> groups, String next) implements WireType {}
}
