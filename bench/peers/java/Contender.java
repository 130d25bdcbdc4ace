/**
 * A timer under test. {@code H} is what it gives back to cancel a task with.
 */
interface Contender<H> {
    /** Schedules a task that captures two longs: its index and its deadline. */
    H schedule(long delayNanos, long index, long deadline);

    /** Cancels a pending task; false if the timer says it was not pending. */
    boolean cancel(H handle);

    /** Ends the timer's threads and forgets what is pending. */
    void close();
}
