package io.github.tickwheel;

import java.util.List;
import java.util.Map;

/**
 * Which events to follow: those that match every component that is not {@code null}.
 *
 * @param events the names of the events, such as {@code failed} and {@code dead}
 * @param state events after which the job is in this state
 * @param key events of jobs with this key
 * @param keyPrefix events of jobs whose key begins with this
 * @param error failures whose error contains this text, in any case of ASCII letters
 */
public record EventFilter(List<String> events, State state, String key, String keyPrefix, String error) {
    /** All events. */
    public static final EventFilter ALL = new EventFilter(null, null, null, null, null);

    /**
     * Returns a filter of events by name.
     *
     * @param events the names, such as {@code failed} and {@code dead}
     * @return the filter
     */
    public static EventFilter of(String... events) {
        return Wire.with(ALL, "events", List.of(events));
    }

    /**
     * Narrows the filter to events after which the job is in a state.
     *
     * @param state the state
     * @return the changed filter
     */
    public EventFilter state(State state) {
        return Wire.with(this, "state", state);
    }

    /**
     * Narrows the filter to events of jobs with a key.
     *
     * @param key the key
     * @return the changed filter
     */
    public EventFilter key(String key) {
        return Wire.with(this, "key", key);
    }

    /**
     * Narrows the filter to events of jobs whose key begins with a prefix.
     *
     * @param prefix the prefix
     * @return the changed filter
     */
    public EventFilter keyPrefix(String prefix) {
        return Wire.with(this, "keyPrefix", prefix);
    }

    /**
     * Narrows the filter to failures whose error contains a text.
     *
     * @param error the text, in any case of ASCII letters
     * @return the changed filter
     */
    public EventFilter error(String error) {
        return Wire.with(this, "error", error);
    }

    Map<String, Object> fields() {
        return Caller.fields(
                "event", events == null ? null : String.join(",", events), "state", state, "key", key,
                "key_prefix", keyPrefix, "error", error);
    }
}
