package io.github.tickwheel;

/** What happens to occurrences that were missed, for example while the server was down. */
public enum Misfire implements WireType {
    /** Missed occurrences are skipped. */
    SKIP,
    /** One job stands for all missed occurrences. This is the default. */
    ONCE,
    /** Each missed occurrence puts its job, up to the limit of the schedule. */
    ALL
}
