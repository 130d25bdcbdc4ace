import java.util.LinkedHashMap;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.IntPredicate;

/**
 * The workloads, on one kind of timer: see ../README.md.
 */
final class Workloads<H> {
    /** Makes a timer. */
    interface Factory<H> {
        Contender<H> make();
    }

    /** How long a process gets to calm down before it is watched doing nothing. */
    private static final long MOST_CALM_MILLIS = 1_000;

    private final Factory<H> factory;
    private final Plan plan;
    private final Map<String, Double> figures = new LinkedHashMap<>();
    private final Work.Checksum checksum = new Work.Checksum();

    Workloads(Factory<H> factory, Plan plan) {
        this.factory = factory;
        this.plan = plan;
    }

    void run() throws Exception {
        Contender<H> timer = factory.make();
        switch (plan.workload()) {
            case "schedule" -> schedule(timer);
            case "cancel" -> cancel(timer);
            case "churn" -> churn(timer);
            case "two-producers" -> twoProducers(timer);
            case "two-churn" -> churnOnThreads(timer, 2);
            case "two-cancel" -> cancelEachOther(timer);
            case "eight-producers" -> scheduleOnThreads(timer, 8);
            case "eight-churn" -> churnOnThreads(timer, 8);
            case "fire" -> fire(timer);
            case "idle" -> idle(timer);
            case "memory" -> memory(timer);
            case "blocked" -> blocked(timer);
            default -> throw new IllegalArgumentException("no workload " + plan.workload());
        }
        timer.close();
    }

    String json() {
        StringBuilder json = new StringBuilder("{\"checksum\":");
        json.append(Long.toUnsignedString(checksum.sum())).append(",\"figures\":{");
        String separator = "";
        for (Map.Entry<String, Double> figure : figures.entrySet()) {
            json.append(separator).append('"').append(figure.getKey()).append("\":");
            json.append(figure.getValue());
            separator = ",";
        }
        return json.append("}}").toString();
    }

    private void perOperation(String name, Meter.Reading reading, long operations) {
        figures.put(name + "-cpu", reading.cpuNanos() / operations);
        figures.put(name + "-wall", reading.wallNanos() / operations);
    }

    /** Schedules the tasks with indices from {@code from} up to {@code to}. */
    private void scheduleAll(Contender<H> timer, long[] delays, Object[] handles, int from, int to) {
        for (int i = from; i < to; i++) {
            handles[i] = timer.schedule(delays[i], i, 0);
        }
    }

    /** Waits until the timer has done all it was asked for, not only taken note of it. */
    private void settle(Contender<H> timer) {
        Lateness.forgetSentinel();
        timer.schedule(0, Lateness.SENTINEL, 0);
        while (!Lateness.sentinelRan()) {
            Lateness.sleep(1);
        }
    }

    @SuppressWarnings("unchecked")
    private static <H> H handle(Object handle) {
        return (H) handle;
    }

    private void schedule(Contender<H> timer) {
        long[] delays = Work.farDelays(plan);
        checksum.add(delays);
        Object[] handles = prepare();
        Meter meter = Meter.start();
        scheduleAll(timer, delays, handles, 0, delays.length);
        settle(timer);
        perOperation("schedule", meter.stop(), delays.length);
    }

    private Object[] prepare() {
        Object[] handles = new Object[plan.timers()];
        System.gc();
        return handles;
    }

    private void cancel(Contender<H> timer) {
        long[] delays = Work.farDelays(plan);
        int[] order = Work.order(plan);
        checksum.add(delays).add(order);
        Object[] handles = prepare();
        scheduleAll(timer, delays, handles, 0, delays.length);
        settle(timer);
        Object[] atHand = new Object[order.length];
        for (int i = 0; i < order.length; i++) {
            atHand[i] = handles[order[i]];
        }
        handles = null;
        System.gc();
        int refused = 0;
        Meter meter = Meter.start();
        for (int i = 0; i < atHand.length; i++) {
            refused += timer.cancel(handle(atHand[i])) ? 0 : 1;
            atHand[i] = null;
        }
        settle(timer);
        perOperation("cancel", meter.stop(), order.length);
        noneRefused(refused);
    }

    private static void noneRefused(int refused) {
        if (refused > 0) {
            throw new IllegalStateException(refused + " pending timers were not cancelled");
        }
    }

    private void churn(Contender<H> timer) {
        long[] delays = Work.farDelays(plan);
        Work.Moves moves = Work.moves(plan);
        checksum.add(delays).add(moves.index()).add(moves.delayMillis());
        Object[] handles = prepare();
        scheduleAll(timer, delays, handles, 0, delays.length);
        settle(timer);
        System.gc();
        int refused = 0;
        Meter meter = Meter.start();
        for (int i = 0; i < plan.moves(); i++) {
            int index = moves.index()[i];
            refused += timer.cancel(handle(handles[index])) ? 0 : 1;
            handles[index] = timer.schedule(moves.delayMillis()[i] * 1_000_000L, index, 0);
        }
        settle(timer);
        perOperation("churn", meter.stop(), plan.moves());
        noneRefused(refused);
    }

    private void twoProducers(Contender<H> timer) throws InterruptedException {
        long[] delays = Work.farDelays(plan);
        checksum.add(delays);
        Object[] handles = prepare();
        int half = delays.length / 2;
        CountDownLatch scheduled = new CountDownLatch(1);
        CountDownLatch measured = new CountDownLatch(1);
        Meter meter = Meter.start();
        Thread other = new Thread(() -> {
            scheduleAll(timer, delays, handles, half, delays.length);
            scheduled.countDown();
            // A thread that has ended takes its processor time with it.
            await(measured);
        });
        other.start();
        scheduleAll(timer, delays, handles, 0, half);
        await(scheduled);
        settle(timer);
        perOperation("two-producers", meter.stop(), delays.length);
        measured.countDown();
        other.join();
    }

    /** What a thread does with its number. */
    interface Part {
        void run(int number);
    }

    /**
     * Lets threads prepare at once, and then times their work and what the timer has left to do.
     */
    private Meter.Reading timeThreads(Contender<H> timer, int threads, Part prepare, Part work)
            throws InterruptedException {
        CountDownLatch ready = new CountDownLatch(threads);
        CountDownLatch begin = new CountDownLatch(1);
        CountDownLatch done = new CountDownLatch(threads);
        CountDownLatch measured = new CountDownLatch(1);
        Thread[] all = new Thread[threads];
        for (int i = 0; i < threads; i++) {
            int number = i;
            all[i] = new Thread(() -> {
                prepare.run(number);
                ready.countDown();
                await(begin);
                work.run(number);
                done.countDown();
                // A thread that has ended takes its processor time with it.
                await(measured);
            });
            all[i].start();
        }
        await(ready);
        settle(timer);
        System.gc();
        Meter meter = Meter.start();
        begin.countDown();
        await(done);
        settle(timer);
        Meter.Reading reading = meter.stop();
        measured.countDown();
        for (Thread thread : all) {
            thread.join();
        }
        return reading;
    }

    private void scheduleOnThreads(Contender<H> timer, int threads) throws InterruptedException {
        long[] delays = Work.farDelays(plan);
        checksum.add(delays);
        Object[] handles = prepare();
        int part = delays.length / threads;
        Meter.Reading reading = timeThreads(timer, threads, number -> {}, number ->
                scheduleAll(timer, delays, handles, number * part, (number + 1) * part));
        perOperation(plan.workload(), reading, (long) threads * part);
    }

    /** Each thread has a part of the timers, which it scheduled, and a part of the moves. */
    private void churnOnThreads(Contender<H> timer, int threads) throws InterruptedException {
        long[] delays = Work.farDelays(plan);
        Work.Moves moves = Work.moves(plan);
        checksum.add(delays).add(moves.index()).add(moves.delayMillis());
        Object[] handles = prepare();
        int part = delays.length / threads;
        int steps = plan.moves() / threads;
        AtomicInteger refused = new AtomicInteger();
        Part schedule = number ->
                scheduleAll(timer, delays, handles, number * part, (number + 1) * part);
        Meter.Reading reading = timeThreads(timer, threads, schedule, number -> {
            int gone = 0;
            for (int i = number * steps; i < (number + 1) * steps; i++) {
                int index = number * part + moves.index()[i] % part;
                gone += timer.cancel(handle(handles[index])) ? 0 : 1;
                handles[index] = timer.schedule(moves.delayMillis()[i] * 1_000_000L, index, 0);
            }
            refused.addAndGet(gone);
        });
        perOperation(plan.workload(), reading, (long) threads * steps);
        noneRefused(refused.get());
    }

    private void cancelEachOther(Contender<H> timer) throws InterruptedException {
        long[] delays = Work.farDelays(plan);
        int[] order = Work.order(plan);
        checksum.add(delays).add(order);
        Object[] handles = prepare();
        int half = delays.length / 2;
        Object[][] atHand = new Object[2][half];
        CountDownLatch scheduled = new CountDownLatch(2);
        AtomicInteger refused = new AtomicInteger();
        Part prepare = number -> {
            scheduleAll(timer, delays, handles, number * half, (number + 1) * half);
            scheduled.countDown();
            await(scheduled);
            int from = (1 - number) * half;
            int next = 0;
            for (int index : order) {
                if (index >= from && index < from + half) {
                    atHand[number][next++] = handles[index];
                }
            }
        };
        Meter.Reading reading = timeThreads(timer, 2, prepare, number -> {
            int gone = 0;
            Object[] others = atHand[number];
            for (int i = 0; i < others.length; i++) {
                gone += timer.cancel(handle(others[i])) ? 0 : 1;
                others[i] = null;
            }
            refused.addAndGet(gone);
        });
        perOperation(plan.workload(), reading, 2L * half);
        noneRefused(refused.get());
    }

    private static void await(CountDownLatch latch) {
        try {
            latch.await();
        } catch (InterruptedException interrupted) {
            throw new IllegalStateException("a producer was interrupted", interrupted);
        }
    }

    private void memory(Contender<H> timer) {
        long[] delays = Work.tomorrow(plan);
        checksum.add(delays);
        settle(timer);
        long before = usedHeap();
        for (int i = 0; i < delays.length; i++) {
            timer.schedule(delays[i], i, 0);
        }
        settle(timer);
        figures.put("memory", (double) (usedHeap() - before) / delays.length);
    }

    private static long usedHeap() {
        for (int i = 0; i < 3; i++) {
            System.gc();
        }
        return Runtime.getRuntime().totalMemory() - Runtime.getRuntime().freeMemory();
    }

    private void idle(Contender<H> timer) {
        long[] delays = Work.tomorrow(plan);
        checksum.add(delays);
        Object[] handles = prepare();
        settle(timer);
        doNothing("idle-empty");
        scheduleAll(timer, delays, handles, 0, delays.length);
        settle(timer);
        System.gc();
        doNothing("idle-full");
    }

    /** What the process does while nothing is due, once it has calmed down. */
    private void doNothing(String name) {
        Lateness.sleep(Math.min(plan.idleMillis(), MOST_CALM_MILLIS));
        Map<String, Long> switches = Meter.switches();
        Meter meter = Meter.start();
        Lateness.sleep(plan.idleMillis());
        Meter.Reading reading = meter.stop();
        double seconds = reading.wallNanos() / 1e9;
        figures.put(name + "-cpu", reading.cpuNanos() / 1e6 / seconds);
        figures.put(name + "-switches", Meter.grown(switches, Meter.switches()) / seconds);
    }

    private void fire(Contender<H> timer) {
        long[] delays = Work.soon(plan);
        checksum.add(delays);
        Lateness.prepare(delays.length);
        System.gc();
        long last = scheduleFiring(timer, delays, index -> false);
        Meter meter = Meter.start();
        Lateness.awaitAll(last);
        figures.put("fire-cpu", meter.stop().cpuNanos() / 1e9);
        long[] late = Lateness.sorted(index -> false);
        latenesses("fire", late);
        int early = 0;
        while (early < late.length && late[early] < 0) {
            early++;
        }
        figures.put("fire-early", (double) early);
    }

    /** Schedules tasks that know their deadline, and says which is the last deadline. */
    private long scheduleFiring(Contender<H> timer, long[] delays, IntPredicate blocks) {
        long began = System.nanoTime();
        long last = began;
        for (int i = 0; i < delays.length; i++) {
            long deadline = System.nanoTime() + delays[i];
            timer.schedule(delays[i], blocks.test(i) ? i + Lateness.BLOCKS : i, deadline);
            last = Math.max(last, deadline);
        }
        long took = (System.nanoTime() - began) / 1_000_000;
        if (took > plan.leadMillis()) {
            throw new IllegalStateException(
                    "scheduling took " + took + " ms, so that the first fired meanwhile");
        }
        return last;
    }

    private void latenesses(String name, long[] sorted) {
        figures.put(name + "-p50", quantile(sorted, 0.5));
        figures.put(name + "-p99", quantile(sorted, 0.99));
        figures.put(name + "-p999", quantile(sorted, 0.999));
        figures.put(name + "-max", quantile(sorted, 1));
    }

    /** In milliseconds. */
    private static double quantile(long[] sorted, double share) {
        int rank = (int) Math.ceil(share * sorted.length);
        return sorted[Math.max(rank, 1) - 1] / 1e6;
    }

    private void blocked(Contender<H> timer) {
        long[] delays = Work.steady(plan);
        checksum.add(delays);
        Lateness.prepare(delays.length);
        System.gc();
        IntPredicate blocks = index -> index % 1_000 == 500;
        Lateness.awaitAll(scheduleFiring(timer, delays, blocks));
        latenesses("blocked", Lateness.sorted(blocks));
    }
}
