package io.github.tickwheel;

import java.time.Duration;
import java.time.Instant;
import java.util.LinkedHashMap;
import java.util.Map;

/**
 * A job to put. Each method returns a changed copy:
 *
 * <pre>{@code
 * NewJob.of("orders", new Order(42)).delay(Duration.ofMinutes(30)).key("order-42")
 * }</pre>
 */
public final class NewJob {
    private final Map<String, Object> fields;
    private final String idempotencyKey;

    private NewJob(Map<String, Object> fields, String idempotencyKey) {
        this.fields = fields;
        this.idempotencyKey = idempotencyKey;
    }

    private static NewJob start(String queue, String form, Object content) {
        Map<String, Object> fields = new LinkedHashMap<>();
        fields.put("queue", queue);
        fields.put(form, Wire.write(content));
        return new NewJob(fields, null);
    }

    /**
     * Returns a job with JSON content.
     *
     * @param queue the queue
     * @param payload a record, {@code Map}, {@code List}, {@code String}, number, boolean, {@code
     *     null}, or a value of {@link Json#parse}
     * @return the job, which is due at once
     */
    public static NewJob of(String queue, Object payload) {
        return start(queue, "payload", payload);
    }

    /**
     * Returns a job whose content is text.
     *
     * @param queue the queue
     * @param text the text
     * @return the job, which is due at once
     */
    public static NewJob ofText(String queue, String text) {
        return start(queue, "text", text);
    }

    /**
     * Returns a job whose content is bytes.
     *
     * @param queue the queue
     * @param bytes the bytes
     * @return the job, which is due at once
     */
    public static NewJob ofBytes(String queue, byte[] bytes) {
        return start(queue, "base64", bytes);
    }

    private NewJob with(String name, Object value) {
        Map<String, Object> changed = new LinkedHashMap<>(fields);
        changed.put(name, Wire.write(value));
        return new NewJob(changed, idempotencyKey);
    }

    /**
     * Sets the delay from now until the job is due.
     *
     * @param delay the delay
     * @return the changed job
     */
    public NewJob delay(Duration delay) {
        return with("delay", Wire.millis(delay));
    }

    /**
     * Sets the time at which the job is due.
     *
     * @param due the time
     * @return the changed job
     */
    public NewJob due(Instant due) {
        return with("due", due.toEpochMilli());
    }

    /**
     * Sets the key, which is unique among the live jobs of the queue: a put with the same key
     * replaces the job.
     *
     * @param key the key
     * @return the changed job
     */
    public NewJob key(String key) {
        return with("key", key);
    }

    /**
     * Sets what to do when a live job has the key.
     *
     * @param conflict what to do; defaults to {@link Conflict#REPLACE}
     * @return the changed job
     */
    public NewJob onConflict(Conflict conflict) {
        return with("on_conflict", conflict);
    }

    /**
     * Sets the priority. Of jobs that are due in the same millisecond, the one with the higher
     * priority is delivered first.
     *
     * @param priority the priority, from -128 to 127; defaults to 0
     * @return the changed job
     */
    public NewJob priority(int priority) {
        return with("priority", priority);
    }

    /**
     * Adds a header that is delivered with the job.
     *
     * @param name the name, in lower case
     * @param value the value
     * @return the changed job
     */
    public NewJob header(String name, String value) {
        Map<String, Object> headers = new LinkedHashMap<>();
        if (fields.get("headers") instanceof Map<?, ?> old) {
            old.forEach((key, held) -> headers.put((String) key, held));
        }
        headers.put(name, value);
        return with("headers", headers);
    }

    /**
     * Sets the maximum number of attempts.
     *
     * @param maxAttempts the number; defaults to that of the queue
     * @return the changed job
     */
    public NewJob maxAttempts(int maxAttempts) {
        return with("max_attempts", maxAttempts);
    }

    /**
     * Sets the delay before each retry.
     *
     * @param retry the policy; defaults to that of the queue
     * @return the changed job
     */
    public NewJob retry(Retry retry) {
        return with("retry", retry);
    }

    /**
     * Sets the group, whose jobs share the group pacing of the queue.
     *
     * @param group the name of the group
     * @return the changed job
     */
    public NewJob group(String group) {
        return with("group", group);
    }

    /**
     * Sets an id of your own. A second put with the same id is refused with {@link
     * ProblemException#ID_EXISTS}.
     *
     * @param id a UUID
     * @return the changed job
     */
    public NewJob id(String id) {
        return with("id", id);
    }

    /**
     * Limits by how much puts that replace each other under one key can postpone the job, counted
     * from the first of them.
     *
     * @param limit the longest total delay
     * @return the changed job
     */
    public NewJob maxTotalDelay(Duration limit) {
        return with("max_total_delay", Wire.millis(limit));
    }

    /**
     * Sets a job to put when this one is acknowledged, with the result as its payload.
     *
     * @param followUp the other job
     * @return the changed job
     */
    public NewJob onSuccess(FollowUp followUp) {
        return with("on_success", followUp);
    }

    /**
     * Sets a job to put when this one dies, with the same payload.
     *
     * @param followUp the other job
     * @return the changed job
     */
    public NewJob onDeath(FollowUp followUp) {
        return with("on_death", followUp);
    }

    /**
     * Sets a key that makes repetitions of the put safe for 24 hours, also across restarts of your
     * program. Without it the client generates one that protects its own retries. A put with a key
     * of its own is not batched with others.
     *
     * @param idempotencyKey the key
     * @return the changed job
     */
    public NewJob idempotencyKey(String idempotencyKey) {
        return new NewJob(fields, idempotencyKey);
    }

    String queue() {
        return (String) fields.get("queue");
    }

    String idempotencyKey() {
        return idempotencyKey;
    }

    Map<String, Object> fields() {
        return fields;
    }

    /** Returns the job with the traceparent of the thread, unless it has one. */
    NewJob traced() {
        String traceparent = Traceparent.current();
        if (traceparent == null
                || fields.get("headers") instanceof Map<?, ?> headers && headers.containsKey(Traceparent.HEADER)) {
            return this;
        }
        return header(Traceparent.HEADER, traceparent);
    }

    @Override
    public String toString() {
        return "NewJob" + fields;
    }
}
