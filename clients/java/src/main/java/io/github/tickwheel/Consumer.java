package io.github.tickwheel;

import java.lang.System.Logger.Level;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;

/**
 * Works on one queue for a {@link Worker}.
 *
 * <p>Ground rules: a job is in {@code held} from its delivery until its outcome is reported, and its
 * lease is extended for as long. The semaphore {@code slots} has a permit for each job that may still
 * be reserved, so the worker never holds more than concurrency plus prefetch.
 */
final class Consumer {
    private static final System.Logger LOG = System.getLogger("io.github.tickwheel");
    /** How long a reserve waits for a job. The server allows 60 seconds. */
    private static final Duration RESERVE_WAIT = Duration.ofSeconds(20);
    private static final int MAX_RESERVE = 1000;
    /** How a worker backs off while the server cannot be reached. */
    private static final RetryPolicy RECONNECT = RetryPolicy.DEFAULT;

    /** Ends a performer. */
    private static final Task END = new Task(null);

    private final Worker worker;
    private final Client client;
    private final String queue;
    private final Handler handler;
    private final Semaphore slots;
    private final BlockingQueue<Task> tasks = new LinkedBlockingQueue<>();
    private final Set<Task> held = ConcurrentHashMap.newKeySet();
    private final List<Thread> performers = new ArrayList<>();
    private final Thread reserver;
    private final Thread extender;
    private volatile boolean givenUp;

    /** A delivered job. */
    private static final class Task {
        final Delivery delivery;
        volatile boolean isLost;
        // Guarded by this: the thread of the handler while it runs.
        private Thread thread;

        Task(Delivery delivery) {
            this.delivery = delivery;
        }

        String id() {
            return delivery.job().id();
        }

        synchronized void begin() {
            thread = Thread.currentThread();
        }

        /** After this the thread is not interrupted for this task any more. */
        synchronized void end() {
            thread = null;
            Thread.interrupted();
        }

        synchronized void interrupt() {
            if (thread != null) {
                thread.interrupt();
            }
        }
    }

    Consumer(Worker worker, String queue, Handler handler) {
        this.worker = worker;
        this.client = worker.client;
        this.queue = queue;
        this.handler = handler;
        slots = new Semaphore(worker.concurrency + worker.prefetch);
        reserver = daemon("reserve", this::reserveAll);
        extender = daemon("extend", this::extendLeases);
        for (int i = 0; i < worker.concurrency; i++) {
            performers.add(daemon("handle-" + i, this::performAll));
        }
    }

    private Thread daemon(String role, Runnable task) {
        Thread thread = new Thread(task, "tickwheel-" + queue + "-" + role);
        thread.setDaemon(true);
        return thread;
    }

    void start() {
        extender.start();
        performers.forEach(Thread::start);
        reserver.start();
    }

    /** Ends the wait of an open reserve; what it delivers is released. */
    void stopReserving() {
        reserver.interrupt();
    }

    /** Waits for the handlers until the deadline, and releases what is left. */
    boolean finish(long deadline) {
        boolean isClean = joinBefore(reserver, deadline);
        // The performers release what no handler has begun, and end.
        performers.forEach(thread -> tasks.add(END));
        for (Thread performer : performers) {
            isClean &= joinBefore(performer, deadline);
        }
        givenUp = true;
        extender.interrupt();
        if (!isClean) {
            releaseHeld();
            held.forEach(Task::interrupt);
        }
        return isClean;
    }

    private static boolean joinBefore(Thread thread, long deadline) {
        try {
            // A wait of 0 would be without end.
            thread.join(Math.max(1, TimeUnit.NANOSECONDS.toMillis(deadline - System.nanoTime())));
        } catch (InterruptedException error) {
            Thread.currentThread().interrupt();
        }
        return !thread.isAlive();
    }

    /** Reserves jobs until the worker stops. Backs off while the server cannot be reached. */
    private void reserveAll() {
        int failures = 0;
        try {
            while (!worker.isStopped()) {
                slots.acquire();
                int free = 1 + takeFree();
                try {
                    List<Delivery> deliveries = client.reserve(queue, new ReserveOptions(free, worker.lease, RESERVE_WAIT, worker.name), true);
                    for (Delivery delivery : deliveries) {
                        hold(delivery);
                    }
                    slots.release(free - deliveries.size());
                    failures = 0;
                } catch (TickwheelException error) {
                    slots.release(free);
                    if (!worker.isStopped()) {
                        LOG.log(Level.WARNING, "cannot reserve jobs of {0}; retrying: {1}", queue, error.getMessage());
                        RECONNECT.sleep(failures++, error);
                    }
                }
            }
        } catch (InterruptedException error) {
            // The worker stops.
        }
    }

    /** Takes all permits that are free, up to the limit of a reserve, and returns their number. */
    private int takeFree() {
        int free = 0;
        while (free < MAX_RESERVE - 1 && slots.tryAcquire()) {
            free++;
        }
        return free;
    }

    private void hold(Delivery delivery) {
        Task task = new Task(delivery);
        held.add(task);
        tasks.add(task);
    }

    /** Ends the work on a task: its lease is no longer extended. */
    private void drop(Task task) {
        held.remove(task);
        slots.release();
    }

    private void performAll() {
        while (true) {
            Task task;
            try {
                task = tasks.take();
            } catch (InterruptedException error) {
                continue; // Meant for a task that has ended.
            }
            if (task == END) {
                return;
            }
            try {
                if (worker.isStopped()) {
                    giveBack(task);
                } else if (!task.isLost) {
                    perform(task);
                }
            } finally {
                drop(task);
            }
        }
    }

    private void perform(Task task) {
        Object result = null;
        Throwable failure = null;
        task.begin();
        try {
            Job job = task.delivery.job();
            Object value = Traceparent.call(job.headers().get(Traceparent.HEADER), () -> handler.handle(job));
            result = value == null ? null : Wire.write(value);
        } catch (Throwable error) { // Whatever a handler does, the worker continues.
            failure = error;
        } finally {
            task.end();
        }
        if (givenUp || task.isLost) { // The job was released, or belongs to another worker.
            return;
        }
        String id = task.id();
        String token = task.delivery.token();
        Object outcome = result;
        if (failure == null) {
            report(task, () -> client.ack(id, token, outcome));
        } else if (failure instanceof JobException verdict && verdict.isRelease()) {
            report(task, () -> client.release(id, token, verdict.delay()));
        } else {
            Failure cause = failure instanceof JobException verdict ? verdict.failure() : Failure.of(describe(failure));
            report(task, () -> client.fail(id, token, cause));
        }
    }

    private static String describe(Throwable error) {
        String message = error.getMessage();
        String type = error.getClass().getSimpleName();
        return message == null || message.isEmpty() ? type : type + ": " + message;
    }

    /**
     * Repeats the request until the server has answered it or the lease is lost. The lease token
     * fences it: a late report changes nothing.
     */
    private void report(Task task, Runnable send) {
        for (int failures = 0; ; failures++) {
            try {
                send.run();
                return;
            } catch (TickwheelException error) {
                if (!task.isLost && !givenUp && Caller.isRepeatable(error, false)) {
                    try {
                        RECONNECT.sleep(failures, error);
                    } catch (InterruptedException interrupt) {
                        return;
                    }
                    continue;
                }
                LOG.log(Level.WARNING, "the outcome of job {0} was not accepted: {1}", task.id(), error.getMessage());
                if (error instanceof ProblemException problem && (problem.status() == 413 || problem.status() == 422)) {
                    failRefused(task, problem);
                }
                return;
            }
        }
    }

    /** For example a result that is too large. Without this the job would run again and again. */
    private void failRefused(Task task, ProblemException problem) {
        try {
            String error = "the outcome was refused: " + problem.problem().detail();
            client.fail(task.id(), task.delivery.token(), Failure.of(error));
        } catch (TickwheelException error) {
            LOG.log(Level.WARNING, "job {0} was not failed: {1}", task.id(), error.getMessage());
        }
    }

    /** Releases a job that no handler has begun. */
    private void giveBack(Task task) {
        try {
            client.release(task.id(), task.delivery.token(), null);
        } catch (TickwheelException error) {
            LOG.log(Level.WARNING, "job {0} was not released; its lease will expire: {1}", task.id(), error.getMessage());
        }
    }

    private static List<LeaseItem> items(List<Task> list, Duration lease) {
        return list.stream().map(task -> LeaseItem.of(task.delivery).lease(lease)).toList();
    }

    /** Extends the leases of all held jobs, each third of a lease. */
    private void extendLeases() {
        try {
            while (!givenUp) {
                Thread.sleep(worker.lease.toMillis() / 3);
                List<Task> list = List.copyOf(held);
                if (!list.isEmpty()) {
                    extend(list);
                }
            }
        } catch (InterruptedException error) {
            // The worker ends.
        }
    }

    private void extend(List<Task> list) {
        List<Result<Instant>> answers;
        try {
            answers = client.extendMany(items(list, worker.lease));
        } catch (TickwheelException error) {
            LOG.log(Level.WARNING, "cannot extend leases of {0}; retrying: {1}", queue, error.getMessage());
            return;
        }
        for (int i = 0; i < list.size(); i++) {
            Problem error = answers.get(i).error();
            boolean isLost = error != null
                    && (ProblemException.STALE_LEASE.equals(error.code()) || ProblemException.NOT_FOUND.equals(error.code()));
            if (isLost && held.contains(list.get(i))) {
                list.get(i).isLost = true;
                list.get(i).interrupt();
            }
        }
    }

    /** Gives back the jobs whose handlers have not returned in time. */
    private void releaseHeld() {
        List<Task> list = List.copyOf(held);
        try {
            client.releaseMany(items(list, null));
        } catch (TickwheelException error) {
            LOG.log(Level.WARNING, "{0} jobs were not released; their leases will expire: {1}", list.size(), error.getMessage());
        }
    }
}
