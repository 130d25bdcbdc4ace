package io.github.tickwheel;

import java.time.Duration;
import java.time.Instant;
import java.util.Map;

/**
 * A schedule as the server shows it. Components that the server leaves out are {@code null}.
 *
 * @param name the name
 * @param queue the queue of the jobs
 * @param cron the cron expression
 * @param timezone the time zone of the expression
 * @param every the period
 * @param misfire what happens to missed occurrences
 * @param misfireLimit with {@link Misfire#ALL}: how many missed occurrences put a job at most
 * @param grace how late an occurrence may be without being missed
 * @param payload the content of the jobs, if it is JSON
 * @param text the content of the jobs, if it is text
 * @param base64 the content of the jobs, if it is neither
 * @param delay from an occurrence until its job is due
 * @param key the key of the jobs
 * @param onConflict what the jobs do when a live job has the key
 * @param priority the priority of the jobs
 * @param headers headers that are delivered with the jobs
 * @param maxAttempts the maximum number of attempts of the jobs
 * @param retry the delay before each retry of the jobs
 * @param group the group of the jobs
 * @param explanation when the jobs are put, in words
 * @param paused whether the schedule is paused
 * @param fired the number of jobs that the schedule has put
 * @param problem why the last occurrence could not put its job
 * @param created when the schedule was created
 * @param last the last occurrence that put a job
 * @param next the next occurrence
 */
public record Schedule(
        String name, String queue, String cron, String timezone, Duration every, Misfire misfire,
        Integer misfireLimit, Duration grace, Object payload, String text, byte[] base64,
        Duration delay, String key, Conflict onConflict, int priority, Map<String, String> headers,
        Integer maxAttempts, Retry retry, String group, String explanation, boolean paused, long fired,
        String problem, Instant created, Instant last, Instant next)
        implements WireType {}
