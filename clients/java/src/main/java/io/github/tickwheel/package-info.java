/**
 * The client of Tickwheel, a durable delayed-job service.
 *
 * <p>A {@link io.github.tickwheel.Client} puts, cancels and administers jobs. A {@link
 * io.github.tickwheel.Worker} performs them. The package {@code io.github.tickwheel.testing} has a
 * real server and a fake for tests.
 */
package io.github.tickwheel;
