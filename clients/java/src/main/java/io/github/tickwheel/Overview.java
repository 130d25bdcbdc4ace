package io.github.tickwheel;

import java.time.Instant;
import java.util.List;

/**
 * Everything at one glance. Numbers that are not known are {@code null}.
 *
 * @param at the time of the server
 * @param summary the health in one sentence: {@code all on time}, or the worst trouble
 * @param health what is wrong, the worst first
 * @param totals the numbers of all queues that the token may see; {@code null} while the store does not
 *     answer
 * @param queues the queues, by name; if there are more than 200, those in which most happens or waits
 * @param queuesLeftOut the number of queues that are left out
 */
public record Overview(
        Instant at, String summary, List<Trouble> health, Totals totals, List<QueueOverview> queues,
        long queuesLeftOut)
        implements WireType {
    /**
     * One thing that is wrong.
     *
     * @param code what is wrong: {@code store-failing}, {@code disk-nearly-full}, {@code damaged-rows},
     *     {@code jobs-wait} or {@code target-held}
     * @param message one sentence for people
     * @param queue the queue that it concerns
     * @param target the target that it concerns
     */
    public record Trouble(String code, String message, String queue, String target) implements WireType {}

    /**
     * Jobs in each second, averaged over the last 10.
     *
     * @param put jobs put
     * @param delivered deliveries to workers
     * @param acked jobs acknowledged
     * @param failed attempts that failed, including leases that expired
     * @param died jobs that died
     */
    public record Rates(double put, double delivered, double acked, double failed, double died)
            implements WireType {}

    /**
     * How many waiting jobs become due when. The ranges do not overlap.
     *
     * @param at when the jobs were counted
     * @param ready jobs that are due already
     * @param minute jobs due within a minute
     * @param hour jobs due within an hour
     * @param day jobs due within a day
     * @param month jobs due within 30 days
     * @param later jobs due after 30 days
     */
    public record Upcoming(Instant at, long ready, long minute, long hour, long day, long month, long later)
            implements WireType {}

    /**
     * A queue at one glance.
     *
     * @param name the name
     * @param paused whether deliveries are paused
     * @param target the target that gets its jobs
     * @param jobs the number of jobs in each state
     * @param moreReady whether more jobs are ready than memory holds; those count as scheduled
     * @param held ready jobs that a pause or a limit holds back
     * @param rates what happens in each second
     * @param oldestReady when the job was due that has been ready for the longest time
     * @param waitingMs how long that job has waited, in milliseconds
     * @param latenessP50Ms how long after their due time half of the jobs were delivered at most, in the last
     *     minute
     * @param latenessP99Ms the same for 99 of 100 jobs
     * @param workers the number of workers that reserved jobs in the last minute
     * @param upcoming when the waiting jobs become due
     * @param pacingUtilisation the share of the queue's limits that is used, from 0 to 1
     */
    public record QueueOverview(
            String name, boolean paused, String target, Queue.Counts jobs, boolean moreReady, long held, Rates rates,
            Instant oldestReady, Long waitingMs, Long latenessP50Ms, Long latenessP99Ms, Long workers,
            Upcoming upcoming, Double pacingUtilisation)
            implements WireType {}

    /**
     * The numbers of all queues that the token may see.
     *
     * @param queues the number of queues
     * @param pausedQueues the number of paused queues among them
     * @param jobs the number of jobs in each state
     * @param held ready jobs that a pause or a limit holds back
     * @param rates what happens in each second
     * @param latenessP50Ms how long after their due time half of the jobs were delivered at most, in the last
     *     minute
     * @param latenessP99Ms the same for 99 of 100 jobs
     * @param workers the number of workers that reserved jobs in the last minute
     * @param upcoming when the waiting jobs become due
     * @param diskBytes bytes on disk
     * @param diskFreeBytes bytes that the file system has left
     */
    public record Totals(
            long queues, long pausedQueues, Queue.Counts jobs, long held, Rates rates, Long latenessP50Ms,
            Long latenessP99Ms, Long workers, Upcoming upcoming, Long diskBytes, Long diskFreeBytes)
            implements WireType {}
}
