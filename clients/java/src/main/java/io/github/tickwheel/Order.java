package io.github.tickwheel;

/** The order in which the ready jobs of a queue are delivered. Defaults to {@link #DUE}. */
public enum Order implements WireType {
    /** By due time; priority decides within a millisecond. */
    DUE,
    /** By priority, the highest first, then by due time. */
    PRIORITY
}
