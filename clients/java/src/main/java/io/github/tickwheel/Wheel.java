package io.github.tickwheel;

import java.time.Instant;
import java.util.List;

/**
 * The timing wheel of the queue: how many jobs and leases each slot holds.
 *
 * @param at the time of the wheel
 * @param horizonMs how far ahead jobs are kept on the wheel, in milliseconds
 * @param levels the levels from the innermost outward; outer levels that hold nothing are left out
 * @param ready jobs in memory that left the wheel because they are due
 * @param beyond jobs that are on disk only
 */
public record Wheel(Instant at, long horizonMs, List<Level> levels, long ready, long beyond) implements WireType {
    /**
     * One level. Slot {@code s} begins at {@code start + s * slotMs}. The last three components are
     * columns: the values at one index belong to one slot.
     *
     * @param level the level; 0 is the innermost
     * @param slots the number of its slots
     * @param slotMs how many milliseconds a slot spans
     * @param position the slot in which the present is
     * @param start when slot 0 begins
     * @param occupied the slots that hold something, in ascending order
     * @param jobs the number of jobs in each of these slots that become ready
     * @param leases the number of leases in each of these slots that expire
     */
    public record Level(
            int level, int slots, long slotMs, int position, Instant start, List<Integer> occupied, List<Long> jobs,
            List<Long> leases)
            implements WireType {}
}
