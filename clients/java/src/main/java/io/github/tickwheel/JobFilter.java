package io.github.tickwheel;

import java.time.Instant;
import java.util.Map;

/**
 * Which jobs of a queue match: those that match every component that is not {@code null}.
 *
 * @param state jobs in this state
 * @param error jobs whose last error contains this text, in any case of ASCII letters
 * @param errorGroup jobs whose last error belongs to this group: {@link ErrorGroups.Group#error}
 * @param key jobs with this key
 * @param keyPrefix jobs whose key begins with this
 * @param dueFrom jobs due at this time or later
 * @param dueTo jobs due at this time or earlier
 */
public record JobFilter(
        State state, String error, String errorGroup, String key, String keyPrefix, Instant dueFrom, Instant dueTo) {
    /** All jobs. */
    public static final JobFilter ALL = new JobFilter(null, null, null, null, null, null, null);

    /**
     * Narrows the filter to jobs in a state.
     *
     * @param state the state
     * @return the changed filter
     */
    public JobFilter state(State state) {
        return Wire.with(this, "state", state);
    }

    /**
     * Narrows the filter to jobs whose last error contains a text.
     *
     * @param error the text, in any case of ASCII letters
     * @return the changed filter
     */
    public JobFilter error(String error) {
        return Wire.with(this, "error", error);
    }

    /**
     * Narrows the filter to jobs whose last error belongs to a group.
     *
     * @param errorGroup {@link ErrorGroups.Group#error}
     * @return the changed filter
     */
    public JobFilter errorGroup(String errorGroup) {
        return Wire.with(this, "errorGroup", errorGroup);
    }

    /**
     * Narrows the filter to jobs with a key.
     *
     * @param key the key
     * @return the changed filter
     */
    public JobFilter key(String key) {
        return Wire.with(this, "key", key);
    }

    /**
     * Narrows the filter to jobs whose key begins with a prefix.
     *
     * @param prefix the prefix
     * @return the changed filter
     */
    public JobFilter keyPrefix(String prefix) {
        return Wire.with(this, "keyPrefix", prefix);
    }

    /**
     * Narrows the filter to jobs that are due in a period.
     *
     * @param from the beginning, included; {@code null} for none
     * @param to the end, included; {@code null} for none
     * @return the changed filter
     */
    public JobFilter due(Instant from, Instant to) {
        return Wire.with(Wire.with(this, "dueFrom", from), "dueTo", to);
    }

    Map<String, Object> fields() {
        return Caller.fields(
                "state", state, "error", error, "error_group", errorGroup, "key", key, "key_prefix", keyPrefix,
                "due_from", Caller.millis(dueFrom), "due_to", Caller.millis(dueTo));
    }
}
