package io.github.tickwheel;

import java.time.Instant;

/**
 * What narrows a list of jobs. A component that is {@code null} does not narrow it.
 *
 * @param state jobs in this state
 * @param dueFrom jobs due at this time or later
 * @param dueTo jobs due at this time or earlier
 * @param key jobs with this key
 * @param keyPrefix jobs whose key begins with this
 * @param error jobs whose last error contains this text, in any case of ASCII letters
 * @param errorGroup jobs whose last error belongs to this group: {@link ErrorGroups.Group#error}
 * @param limit jobs of a page, at most 1,000
 * @param page {@link Job.Page#next} of the page before
 */
public record ListOptions(
        State state, Instant dueFrom, Instant dueTo, String key, String keyPrefix, String error, String errorGroup,
        Integer limit, String page) {
    /** All jobs. */
    public static final ListOptions ALL = new ListOptions(null, null, null, null, null, null, null, null, null);

    /**
     * Returns options for the jobs in a state.
     *
     * @param state the state
     * @return the options
     */
    public static ListOptions of(State state) {
        return Wire.with(ALL, "state", state);
    }

    /**
     * Narrows the list to jobs that are due in a period.
     *
     * @param from the beginning, included; {@code null} for none
     * @param to the end, included; {@code null} for none
     * @return the changed options
     */
    public ListOptions due(Instant from, Instant to) {
        return Wire.with(Wire.with(this, "dueFrom", from), "dueTo", to);
    }

    /**
     * Narrows the list to jobs whose key begins with a prefix.
     *
     * @param prefix the prefix
     * @return the changed options
     */
    public ListOptions keyPrefix(String prefix) {
        return Wire.with(this, "keyPrefix", prefix);
    }

    /**
     * Narrows the list to jobs with a key.
     *
     * @param key the key
     * @return the changed options
     */
    public ListOptions key(String key) {
        return Wire.with(this, "key", key);
    }

    /**
     * Narrows the list to jobs whose last error contains a text.
     *
     * @param error the text, in any case of ASCII letters
     * @return the changed options
     */
    public ListOptions error(String error) {
        return Wire.with(this, "error", error);
    }

    /**
     * Narrows the list to jobs whose last error belongs to a group.
     *
     * @param errorGroup {@link ErrorGroups.Group#error}
     * @return the changed options
     */
    public ListOptions errorGroup(String errorGroup) {
        return Wire.with(this, "errorGroup", errorGroup);
    }

    /**
     * Sets the number of jobs of a page.
     *
     * @param limit the number, at most 1,000
     * @return the changed options
     */
    public ListOptions limit(int limit) {
        return Wire.with(this, "limit", limit);
    }

    /**
     * Sets the page.
     *
     * @param page {@link Job.Page#next} of the page before
     * @return the changed options
     */
    public ListOptions page(String page) {
        return Wire.with(this, "page", page);
    }
}
