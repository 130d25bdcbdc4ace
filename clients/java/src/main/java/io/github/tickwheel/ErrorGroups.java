package io.github.tickwheel;

import java.time.Instant;
import java.util.List;

/**
 * Why jobs fail: their last errors, grouped.
 *
 * @param groups the groups, those with most jobs first
 * @param others the number of jobs of groups that are left out
 * @param complete whether all jobs were looked at; at most 500,000 are, dead ones first
 */
public record ErrorGroups(List<Group> groups, long others, boolean complete) implements WireType {
    /**
     * Jobs whose last attempt failed with the same error, apart from numbers and ids.
     *
     * @param error the first line of the error, with {@code #} for numbers, ids, addresses and times
     * @param count the number of jobs
     * @param dead dead jobs among them
     * @param retrying jobs among them that will be tried again, or are being tried
     * @param newest when the last of them failed; {@code null} if that is not known
     * @param oldest when the first of them failed; {@code null} if that is not known
     * @param example one of the jobs
     * @param queue the queue of that job
     * @param exampleError the whole error of that job
     */
    public record Group(
            String error, long count, long dead, long retrying, Instant newest, Instant oldest, String example,
            String queue, String exampleError)
            implements WireType {}
}
