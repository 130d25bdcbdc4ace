package io.github.tickwheel;

import java.time.Duration;

/**
 * How long finished jobs are kept, by their state. In a request, {@code null} stands for the default
 * (PUT) or for no change (PATCH).
 *
 * @param done acknowledged jobs; by default none is kept
 * @param dead jobs whose last attempt failed; by default all are kept
 * @param cancelled cancelled or replaced jobs; by default none is kept
 */
public record Retention(Keeping done, Keeping dead, Keeping cancelled) implements WireType {
    /**
     * Bounds of the finished jobs that are kept. A component that is {@code null} sets no bound.
     *
     * @param age how long after their end jobs are kept
     * @param count how many jobs are kept
     */
    public record Keeping(Duration age, Long count) implements WireType {
        /**
         * Returns a bound by number.
         *
         * @param count how many jobs are kept; 0 keeps none
         * @return the bound
         */
        public static Keeping count(long count) {
            return new Keeping(null, count);
        }

        /**
         * Returns a bound by age.
         *
         * @param age how long after their end jobs are kept
         * @return the bound
         */
        public static Keeping age(Duration age) {
            return new Keeping(age, null);
        }
    }
}
