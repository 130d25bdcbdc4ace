package io.github.tickwheel;

/**
 * Percentiles of durations, in microseconds.
 *
 * @param count the number of durations
 * @param p50Us the median
 * @param p99Us the 99th percentile
 * @param p999Us the 99.9th percentile
 * @param maxUs the longest duration
 */
public record Percentiles(long count, long p50Us, long p99Us, long p999Us, long maxUs) implements WireType {}
