package io.github.tickwheel;

import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.time.Instant;
import java.util.List;
import java.util.Map;

/** The requests of workers. A {@link Worker} sends them for you. */
abstract class LeaseOperations extends Caller {
    /** The server keeps this much of an error. */
    private static final int MAX_ERROR_BYTES = 4096;

    LeaseOperations(Transport transport, String token, Duration timeout, RetryPolicy retry) {
        super(transport, token, timeout, retry);
    }

    /**
     * Leases jobs.
     *
     * @param queue the queue
     * @param options what to ask for
     * @return the deliveries; empty if the wait ended first
     */
    public List<Delivery> reserve(String queue, ReserveOptions options) {
        return reserve(queue, options, false);
    }

    List<Delivery> reserve(String queue, ReserveOptions options, boolean single) {
        Call call = new Call("POST", "v1", "queues", queue, "reserve");
        call.wait = options.maxWait() == null ? Duration.ZERO : options.maxWait();
        call.single = single;
        call.body(fields(
                "limit", options.limit(), "lease", millis(options.lease()), "wait", millis(options.maxWait()),
                "worker", options.worker()));
        return list("deliveries", Delivery.class, call);
    }

    /**
     * Leases one job, if one is ready.
     *
     * @param queue the queue
     * @return the delivery, or none
     */
    public List<Delivery> reserve(String queue) {
        return reserve(queue, ReserveOptions.ONE);
    }

    private static Call about(String id, String verb, Map<String, Object> body) {
        return new Call("POST", "v1", "jobs", id, verb).body(body);
    }

    /**
     * Acknowledges a job.
     *
     * @param id the job
     * @param token the lease token
     */
    public void ack(String id, String token) {
        ack(id, token, null);
    }

    /**
     * Acknowledges a job with a result, which is kept with the job as JSON.
     *
     * @param id the job
     * @param token the lease token
     * @param result a value with a form in JSON; {@code null} for no result
     */
    public void ack(String id, String token, Object result) {
        perform(about(id, "ack", fields("token", token, "result", result)));
    }

    /**
     * Acknowledges jobs.
     *
     * @param items the jobs, with their results
     * @return a result for each item
     */
    public List<Result<State>> ackMany(List<LeaseItem> items) {
        List<?> wire = items.stream()
                .map(item -> fields("id", item.id(), "token", item.token(), "result", item.result()))
                .toList();
        return batchOf("ack", wire, "state", State.class);
    }

    /**
     * Reports that an attempt failed.
     *
     * @param id the job
     * @param token the lease token
     * @param failure how the attempt failed
     * @return the new state of the job
     */
    public State fail(String id, String token, Failure failure) {
        return member("state", State.class, about(id, "fail", failure(token, failure.error(), failure.delay(), failure.dead())));
    }

    private static Map<String, Object> failure(String token, String error, Duration delay, boolean dead) {
        return fields("token", token, "error", cut(error), "delay", millis(delay), "dead", dead ? true : null);
    }

    /** Shortens the text to what the server keeps, at the border of a character. */
    private static String cut(String text) {
        if (text == null) {
            return null;
        }
        byte[] bytes = text.getBytes(StandardCharsets.UTF_8);
        int end = Math.min(bytes.length, MAX_ERROR_BYTES);
        while (end < bytes.length && (bytes[end] & 0xC0) == 0x80) {
            end--;
        }
        return new String(bytes, 0, end, StandardCharsets.UTF_8);
    }

    /**
     * Reports that attempts failed.
     *
     * @param items the jobs, with their errors and delays
     * @return a result for each item
     */
    public List<Result<State>> failMany(List<LeaseItem> items) {
        List<?> wire = items.stream()
                .map(item -> {
                    Map<String, Object> fields = failure(item.token(), item.error(), item.delay(), item.dead());
                    fields.put("id", item.id());
                    return fields;
                })
                .toList();
        return batchOf("fail", wire, "state", State.class);
    }

    /**
     * Sets the duration of a lease, from now.
     *
     * @param id the job
     * @param token the lease token
     * @param lease the duration
     * @return when the lease expires
     */
    public Instant extend(String id, String token, Duration lease) {
        return member("until_ms", Instant.class, about(id, "extend", fields("token", token, "lease", millis(lease))));
    }

    /**
     * Extends leases.
     *
     * @param items the jobs, with the durations
     * @return a result for each item
     */
    public List<Result<Instant>> extendMany(List<LeaseItem> items) {
        List<?> wire = items.stream()
                .map(item -> fields("id", item.id(), "token", item.token(), "lease", millis(item.lease())))
                .toList();
        return batchOf("extend", wire, "until_ms", Instant.class);
    }

    /**
     * Gives a job back without counting an attempt.
     *
     * @param id the job
     * @param token the lease token
     * @param delay when the job is ready again; {@code null} for at once, in its old position
     */
    public void release(String id, String token, Duration delay) {
        perform(about(id, "release", fields("token", token, "delay", millis(delay))));
    }

    /**
     * Gives jobs back.
     *
     * @param items the jobs, with the delays
     * @return a result for each item
     */
    public List<Result<Boolean>> releaseMany(List<LeaseItem> items) {
        List<?> wire = items.stream()
                .map(item -> fields("id", item.id(), "token", item.token(), "delay", millis(item.delay())))
                .toList();
        return batchOf("release", wire, "released", Boolean.class);
    }

    /**
     * Brings a dead job back.
     *
     * @param id the job
     * @return the new state of the job
     */
    public State kick(String id) {
        return member("state", State.class, new Call("POST", "v1", "jobs", id, "kick"));
    }

    /**
     * Brings dead jobs back.
     *
     * @param ids the jobs
     * @return a result for each job
     */
    public List<Result<State>> kickMany(List<String> ids) {
        return batchOf("kick", ids.stream().map(id -> fields("id", id)).toList(), "state", State.class);
    }
}
