package io.github.tickwheel;

import java.time.Instant;
import java.util.LinkedHashMap;
import java.util.Map;

/**
 * A job of another server, with what has happened to it there.
 *
 * @param job the job as it would be put, with its id and due time
 * @param created when the job was put
 * @param attempts the number of deliveries
 * @param lastError the error of the last failed attempt, or {@code null}
 * @param finished the state in which the job finished, or {@code null} if it waits
 * @param finishedAt when it finished, or {@code null} if it waits
 */
public record ImportedJob(
        NewJob job, Instant created, int attempts, String lastError, State finished, Instant finishedAt) {
    /**
     * Returns a job that waits.
     *
     * @param job the job as it would be put, with its id and due time
     * @param created when the job was put
     * @param attempts the number of deliveries
     * @return the job
     */
    public static ImportedJob waiting(NewJob job, Instant created, int attempts) {
        return new ImportedJob(job, created, attempts, null, null, null);
    }

    Map<String, Object> fields() {
        Map<String, Object> fields = new LinkedHashMap<>();
        fields.put("put", job.fields());
        fields.put("created", created.toEpochMilli());
        fields.put("attempts", attempts);
        if (lastError != null) {
            fields.put("last_error", lastError);
        }
        if (finished != null) {
            fields.put("finished", Map.of("state", finished, "at", finishedAt.toEpochMilli()));
        }
        return fields;
    }
}
