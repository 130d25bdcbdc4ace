package io.github.tickwheel;

import java.nio.charset.StandardCharsets;
import java.time.Instant;
import java.util.List;
import java.util.Map;

/**
 * A job as the server shows it. Components that the server leaves out are {@code null}.
 *
 * @param id the id
 * @param queue the queue
 * @param state where the job is in its life
 * @param key the key of the producer
 * @param group the group
 * @param priority the priority: the higher one is delivered first
 * @param headers headers that are delivered with the job
 * @param payload the content as a value of {@link Json}, if it is JSON
 * @param text the content, if it is text
 * @param base64 the content, if it is neither JSON nor text
 * @param due when the job is due
 * @param created when the job was put
 * @param attempts the number of deliveries, without those that were released
 * @param maxAttempts the job's own maximum number of attempts
 * @param retry the job's own delay before each retry
 * @param onSuccess the job that is put when this one is acknowledged
 * @param onDeath the job that is put when this one dies
 * @param result the result of the acknowledgement; lists leave it out
 * @param lease the lease, if a worker has the job
 * @param lastError the error of the last failed attempt
 * @param finished when the job was acknowledged, cancelled or given up
 * @param history the last 20 attempts that have ended, the oldest first; lists and deliveries leave
 *     them out
 */
public record Job(
        String id, String queue, State state, String key, String group, int priority,
        Map<String, String> headers, Object payload, String text, byte[] base64, Instant due,
        Instant created, int attempts, Integer maxAttempts, Retry retry, FollowUp onSuccess,
        FollowUp onDeath, Object result, Lease lease, String lastError, Instant finished,
        List<Attempt> history)
        implements WireType {
    /**
     * Returns the headers that are delivered with the job.
     *
     * @return the headers; empty if there are none
     */
    @Override
    public Map<String, String> headers() {
        return headers == null ? Map.of() : headers;
    }

    /**
     * Returns the last 20 attempts that have ended, the oldest first. Lists and deliveries leave them
     * out.
     *
     * @return the attempts; empty if there are none
     */
    @Override
    public List<Attempt> history() {
        return history == null ? List.of() : history;
    }

    /**
     * The lease of a job.
     *
     * @param until when the lease expires
     * @param since when the job was delivered
     * @param worker the name that the worker gave when it reserved the job
     */
    public record Lease(Instant until, Instant since, String worker) implements WireType {}

    /**
     * An attempt that has ended: one delivery of a job to a worker.
     *
     * @param number the value of {@code attempts} during the attempt
     * @param started when the job was delivered
     * @param ended when the attempt ended
     * @param outcome how the attempt ended
     * @param worker the name of the worker
     * @param error what went wrong: the first 512 bytes of it
     * @param detail what is known beside the error, such as an excerpt of a response
     */
    public record Attempt(
            int number, Instant started, Instant ended, Ending outcome, String worker, String error,
            String detail)
            implements WireType {}

    /** How an attempt ended. */
    public enum Ending implements WireType {
        /** The worker acknowledged the job. */
        DONE,
        /** The worker reported a failure. */
        FAILED,
        /** The lease expired. */
        EXPIRED,
        /** The worker gave the job back. */
        RELEASED,
        /** The job was cancelled meanwhile. */
        CANCELLED
    }

    /**
     * A page of a list of jobs.
     *
     * @param jobs the jobs
     * @param next the value of {@link ListOptions#page} for the next page; {@code null} on the last
     * @param damaged jobs that belong on this page and cannot be read
     * @param gaps the number of unreadable entries whose job is unknown
     */
    public record Page(List<Job> jobs, String next, List<String> damaged, long gaps) implements WireType {}

    /**
     * Returns the JSON content as a typed value.
     *
     * @param type a record, whose components are named as the members; or {@code Map}, {@code List},
     *     {@code String}, a number type
     * @param <T> the type
     * @return the value
     * @throws IllegalArgumentException if the content is not JSON of that form
     */
    public <T> T payload(Class<T> type) {
        try {
            return Wire.read(payload, type);
        } catch (IllegalArgumentException | ClassCastException | ArithmeticException error) {
            throw new IllegalArgumentException(
                    "cannot read the payload of job " + id + " as " + type.getSimpleName() + ": " + error.getMessage(), error);
        }
    }

    /**
     * Returns the content as bytes: the JSON, the text or the bytes.
     *
     * @return the bytes
     */
    public byte[] content() {
        if (base64 != null) {
            return base64.clone();
        }
        return (text != null ? text : Json.write(payload)).getBytes(StandardCharsets.UTF_8);
    }
}
