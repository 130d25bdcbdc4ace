package io.github.tickwheel;

import java.time.Instant;

/**
 * The time of the server.
 *
 * @param now the time
 * @param manual whether the time stands still until {@link Client#advance} moves it
 */
public record Clock(Instant now, boolean manual) implements WireType {}
