import java.util.Arrays;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.IntPredicate;
import java.util.stream.IntStream;

/**
 * How late each task ran, by index. Static, so that a task captures nothing but its two longs.
 *
 * A task writes to its own place and counts itself; so as many counts as places, with no place
 * empty, means that each ran once.
 */
final class Lateness {
    /** The index of the task that shows that everything before it has been done. */
    static final long SENTINEL = Long.MAX_VALUE;
    /** Added to the index of a task that blocks. */
    static final long BLOCKS = 1L << 40;

    private static final long NOT_RUN = Long.MIN_VALUE;
    private static final long BLOCKED_MILLIS = 100;

    private static long[] nanos = {};
    private static AtomicLong count = new AtomicLong();
    private static volatile boolean sentinelRan;

    private Lateness() {}

    /** Makes room for so many tasks and forgets those before. */
    static void prepare(int tasks) {
        nanos = new long[tasks];
        Arrays.fill(nanos, NOT_RUN);
        count = new AtomicLong();
    }

    static void record(long index, long deadline) {
        long late = System.nanoTime() - deadline;
        if (index == SENTINEL) {
            sentinelRan = true;
            return;
        }
        nanos[(int) (index & (BLOCKS - 1))] = late;
        if (index >= BLOCKS) {
            sleep(BLOCKED_MILLIS);
        }
        count.getAndIncrement();
    }

    static void forgetSentinel() {
        sentinelRan = false;
    }

    static boolean sentinelRan() {
        return sentinelRan;
    }

    /** Waits until every task has run, and makes sure that each ran once. */
    static void awaitAll(long lastDeadline) {
        sleep(Math.max(0, (lastDeadline - System.nanoTime()) / 1_000_000));
        long givenUp = System.nanoTime() + 60_000_000_000L;
        while (count.get() < nanos.length && System.nanoTime() < givenUp) {
            sleep(1);
        }
        long missing = Arrays.stream(nanos).filter(late -> late == NOT_RUN).count();
        if (missing > 0 || count.get() != nanos.length) {
            throw new IllegalStateException(
                    count.get() + " runs of " + nanos.length + " tasks, " + missing + " never ran");
        }
    }

    /** Lateness in order, without the tasks that {@code left} says are left out. */
    static long[] sorted(IntPredicate left) {
        return IntStream.range(0, nanos.length)
                .filter(index -> !left.test(index))
                .mapToLong(index -> nanos[index])
                .sorted()
                .toArray();
    }

    static void sleep(long millis) {
        try {
            Thread.sleep(millis);
        } catch (InterruptedException interrupted) {
            // The pool is being closed; the task ends sooner.
            Thread.currentThread().interrupt();
        }
    }
}
