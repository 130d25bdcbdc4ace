package io.github.tickwheel;

import java.time.Duration;
import java.time.Instant;

/**
 * Counters since the start of the server, and current numbers. Components of a reference type are
 * {@code null} for a token that is restricted to some queues.
 *
 * @param durability when a change is on stable storage: {@code sync}, {@code interval} or {@code
 *     none}
 * @param horizon how far ahead jobs are kept in memory
 * @param queues the number of queues that the token may see
 * @param pending the number of jobs that are scheduled, ready or leased
 * @param leased the number of jobs that are leased
 * @param inMemory jobs and leases in memory
 * @param diskBytes bytes on disk, as of a few seconds ago
 * @param put jobs put
 * @param delivered deliveries to workers
 * @param acked jobs acknowledged
 * @param failed attempts that workers reported as failed
 * @param expired leases that expired
 * @param released jobs released by workers
 * @param died jobs that died
 * @param cancelled jobs cancelled or replaced
 * @param kicked dead jobs made ready again
 * @param damaged rows and jobs that could not be read
 * @param commits group commits
 * @param failures failures of the store after which it was opened again
 * @param commitTime the duration of commits, including the sync
 * @param lateness how long after their due time jobs were delivered
 * @param recent what happened lately, if it was asked for
 */
public record Stats(
        String durability, Duration horizon, long queues, long pending, long leased, Long inMemory,
        Long diskBytes, Long put, Long delivered, Long acked, Long failed, Long expired, Long released,
        Long died, Long cancelled, Long kicked, Long damaged, Long commits, Long failures,
        Percentiles commitTime, Percentiles lateness, Activity recent)
        implements WireType {
    /**
     * What happened in a window of time up to now, in all queues.
     *
     * @param since when the window begins
     * @param windowMs the length of the window in milliseconds
     * @param put jobs put
     * @param delivered deliveries to workers
     * @param acked jobs acknowledged
     * @param failed attempts that workers reported as failed
     * @param expired leases that expired
     * @param released jobs released by workers
     * @param died jobs that died
     * @param cancelled jobs cancelled or replaced
     * @param kicked dead jobs made ready again
     * @param lateness how long after their due time jobs were delivered
     */
    public record Activity(
            Instant since, long windowMs, long put, long delivered, long acked, long failed,
            long expired, long released, long died, long cancelled, long kicked, Percentiles lateness)
            implements WireType {}
}
