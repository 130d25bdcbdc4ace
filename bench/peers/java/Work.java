/**
 * The work, the same in every language: see ../README.md. Made before any clock starts.
 */
final class Work {
    private static final long MILLI = 1_000_000;
    private static final long MICRO = 1_000;
    private static final long DAY = 86_400_000;

    private long state;

    private Work(long seed, long stream) {
        state = seed + stream;
    }

    private long next() {
        state += 0x9E3779B97F4A7C15L;
        long z = state;
        z = (z ^ (z >>> 30)) * 0xBF58476D1CE4E5B9L;
        z = (z ^ (z >>> 27)) * 0x94D049BB133111EBL;
        return z ^ (z >>> 31);
    }

    /** A number below {@code bound}, which is less than 2^32. */
    private long below(long bound) {
        return ((next() >>> 32) * bound) >>> 32;
    }

    private long far() {
        return 60_000 + below(3_540_001);
    }

    /** Delays of 60 s to 3600 s, in nanoseconds. */
    static long[] farDelays(Plan plan) {
        Work work = new Work(plan.seed(), 1);
        long[] delays = new long[plan.timers()];
        for (int i = 0; i < delays.length; i++) {
            delays[i] = work.far() * MILLI;
        }
        return delays;
    }

    /** Delays of one to two days, in nanoseconds. */
    static long[] tomorrow(Plan plan) {
        Work work = new Work(plan.seed(), 1);
        long[] delays = new long[plan.timers()];
        for (int i = 0; i < delays.length; i++) {
            delays[i] = (DAY + work.below(DAY)) * MILLI;
        }
        return delays;
    }

    /** Delays within the span after the lead, in nanoseconds. */
    static long[] soon(Plan plan) {
        Work work = new Work(plan.seed(), 1);
        long[] delays = new long[plan.timers()];
        for (int i = 0; i < delays.length; i++) {
            delays[i] = plan.leadMillis() * MILLI + work.below(plan.spanMillis() * 1_000) * MICRO;
        }
        return delays;
    }

    /** One delay every 100 µs of the span after the lead, in nanoseconds. */
    static long[] steady(Plan plan) {
        long[] delays = new long[(int) plan.spanMillis() * 10];
        for (int i = 0; i < delays.length; i++) {
            delays[i] = plan.leadMillis() * MILLI + i * 100 * MICRO;
        }
        return delays;
    }

    /** Every index once, shuffled. */
    static int[] order(Plan plan) {
        Work work = new Work(plan.seed(), 2);
        int[] order = new int[plan.timers()];
        for (int i = 0; i < order.length; i++) {
            order[i] = i;
        }
        for (int i = order.length - 1; i > 0; i--) {
            int other = (int) work.below(i + 1L);
            int swapped = order[i];
            order[i] = order[other];
            order[other] = swapped;
        }
        return order;
    }

    /** Which timers move, and to which delay in milliseconds. */
    record Moves(int[] index, int[] delayMillis) {}

    static Moves moves(Plan plan) {
        Work work = new Work(plan.seed(), 3);
        Moves moves = new Moves(new int[plan.moves()], new int[plan.moves()]);
        for (int i = 0; i < plan.moves(); i++) {
            moves.index[i] = (int) work.below(plan.timers());
            moves.delayMillis[i] = (int) work.far();
        }
        return moves;
    }

    /** Equal for systems that were given the same work. */
    static final class Checksum {
        private long sum;

        Checksum add(long[] values) {
            for (long value : values) {
                sum = sum * 31 + value;
            }
            return this;
        }

        Checksum add(int[] values) {
            for (int value : values) {
                sum = sum * 31 + value;
            }
            return this;
        }

        long sum() {
            return sum;
        }
    }
}
