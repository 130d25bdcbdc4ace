/**
 * What is scheduled: it knows its index and when it is due, and records how late it ran.
 */
class Task implements Runnable {
    private final long index;
    private final long deadline;

    Task(long index, long deadline) {
        this.index = index;
        this.deadline = deadline;
    }

    @Override
    public final void run() {
        Lateness.record(index, deadline);
    }
}
