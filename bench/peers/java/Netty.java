import io.netty.util.HashedWheelTimer;
import io.netty.util.Timeout;
import io.netty.util.TimerTask;
import java.util.concurrent.TimeUnit;

/**
 * Netty's HashedWheelTimer with a tick of 1 ms, the tick of every system here, and its default of
 * 512 slots.
 */
final class Netty implements Contender<Timeout> {
    private final HashedWheelTimer timer = new HashedWheelTimer(1, TimeUnit.MILLISECONDS, 512);

    private static final class NettyTask extends Task implements TimerTask {
        NettyTask(long index, long deadline) {
            super(index, deadline);
        }

        @Override
        public void run(Timeout timeout) {
            run();
        }
    }

    @Override
    public Timeout schedule(long delayNanos, long index, long deadline) {
        return timer.newTimeout(new NettyTask(index, deadline), delayNanos, TimeUnit.NANOSECONDS);
    }

    @Override
    public boolean cancel(Timeout timeout) {
        return timeout.cancel();
    }

    @Override
    public void close() {
        timer.stop();
    }
}
