package io.github.tickwheel;

import java.time.Duration;
import java.time.Instant;

/**
 * An item of {@link Client#rescheduleMany}: either {@code delay} or {@code due} is given.
 *
 * @param id the job
 * @param delay the delay from now
 * @param due the point in time
 */
public record RescheduleItem(String id, Duration delay, Instant due) {}
