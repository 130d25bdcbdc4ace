package io.github.tickwheel;

import java.time.Instant;

/**
 * What narrows a list of jobs. A component that is {@code null} does not narrow it.
 *
 * @param state jobs in this state
 * @param dueFrom jobs due at this time or later
 * @param dueTo jobs due before this time
 * @param keyPrefix jobs whose key begins with this
 * @param limit jobs of a page, at most 1,000
 * @param page {@link Job.Page#next} of the page before
 */
public record ListOptions(
        State state, Instant dueFrom, Instant dueTo, String keyPrefix, Integer limit, String page) {
    /** All jobs. */
    public static final ListOptions ALL = new ListOptions(null, null, null, null, null, null);

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
     * @param to the end, excluded; {@code null} for none
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
