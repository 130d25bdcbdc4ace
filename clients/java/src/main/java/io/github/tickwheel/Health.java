package io.github.tickwheel;

/**
 * The health of the server.
 *
 * @param status {@code ok}, or why the server is not ready
 * @param version the version of the server
 */
public record Health(String status, String version) implements WireType {}
