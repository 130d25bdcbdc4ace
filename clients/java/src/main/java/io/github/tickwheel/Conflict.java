package io.github.tickwheel;

/** What a put does when a live job of the queue has the same key. Defaults to {@link #REPLACE}. */
public enum Conflict implements WireType {
    /** Cancels that job and puts the new one. */
    REPLACE,
    /** Keeps that job and changes nothing. */
    KEEP,
    /** Refuses the put with {@link ProblemException#KEY_EXISTS}. */
    REJECT
}
