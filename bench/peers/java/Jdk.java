import java.util.concurrent.ScheduledFuture;
import java.util.concurrent.ScheduledThreadPoolExecutor;
import java.util.concurrent.TimeUnit;

/**
 * The JDK's ScheduledThreadPoolExecutor with a thread for each core. Cancelled tasks leave its heap
 * at once: without that policy they stay in it until their deadline, and the memory with them.
 */
final class Jdk implements Contender<ScheduledFuture<?>> {
    private final ScheduledThreadPoolExecutor pool =
            new ScheduledThreadPoolExecutor(Runtime.getRuntime().availableProcessors());

    Jdk() {
        pool.setRemoveOnCancelPolicy(true);
    }

    @Override
    public ScheduledFuture<?> schedule(long delayNanos, long index, long deadline) {
        return pool.schedule(new Task(index, deadline), delayNanos, TimeUnit.NANOSECONDS);
    }

    @Override
    public boolean cancel(ScheduledFuture<?> future) {
        return future.cancel(false);
    }

    @Override
    public void close() {
        pool.shutdownNow();
    }
}
