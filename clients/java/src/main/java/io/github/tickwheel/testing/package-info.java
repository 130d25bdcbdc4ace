/**
 * Help for tests of code that uses Tickwheel: {@link io.github.tickwheel.testing.Server} runs the
 * real binary on a manual clock, and {@link io.github.tickwheel.testing.Fake} answers from memory.
 */
package io.github.tickwheel.testing;
