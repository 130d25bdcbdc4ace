package io.github.tickwheel;

import java.time.Duration;

/**
 * A job that is put when another one ends, in the same commit.
 *
 * @param queue the queue that the job goes to
 * @param delay the delay from the end of the other job; {@code null} for none
 */
public record FollowUp(String queue, Duration delay) implements WireType {
    /**
     * Returns a follow-up without a delay.
     *
     * @param queue the queue that the job goes to
     * @return the follow-up
     */
    public static FollowUp to(String queue) {
        return new FollowUp(queue, null);
    }
}
