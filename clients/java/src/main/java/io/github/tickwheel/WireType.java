package io.github.tickwheel;

/** Marks the types of the API: names are in snake case there, and times are in milliseconds. */
interface WireType {}
