package io.github.tickwheel;

/** What a put did. */
public enum Outcome implements WireType {
    /** A new job was put. */
    CREATED,
    /** A new job was put; the one that had its key is cancelled. */
    REPLACED,
    /** The job that has the key stays. */
    KEPT
}
