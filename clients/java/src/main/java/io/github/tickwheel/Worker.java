package io.github.tickwheel;

import java.net.InetAddress;
import java.net.UnknownHostException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CountDownLatch;

/**
 * Reserves jobs and calls handlers.
 *
 * <pre>{@code
 * Worker worker = Worker.builder(client).concurrency(20).build();
 * worker.on("orders", job -> shop.close(job.payload(Order.class)));
 * worker.stopOnShutdown();
 * worker.run();
 * }</pre>
 */
public final class Worker implements AutoCloseable {
    final Client client;
    final String name;
    final int concurrency;
    final int prefetch;
    final Duration lease;
    final Duration shutdownTimeout;
    private final Map<String, Handler> handlers = new LinkedHashMap<>();
    private final List<Middleware> middleware = new ArrayList<>();
    private final CountDownLatch stopped = new CountDownLatch(1);
    private final CountDownLatch ended = new CountDownLatch(1);
    private volatile boolean started;

    private Worker(Builder builder) {
        client = builder.client;
        name = builder.name == null ? defaultName() : builder.name;
        concurrency = builder.concurrency;
        prefetch = builder.prefetch;
        lease = builder.lease;
        shutdownTimeout = builder.shutdownTimeout;
    }

    private static String defaultName() {
        String host;
        try {
            host = InetAddress.getLocalHost().getHostName();
        } catch (UnknownHostException error) {
            host = "java";
        }
        return host + "-" + ProcessHandle.current().pid();
    }

    /**
     * Returns a builder of a worker.
     *
     * @param client the client of the server
     * @return the builder
     */
    public static Builder builder(Client client) {
        return new Builder(client);
    }

    /** The settings of a new worker. */
    public static final class Builder {
        private final Client client;
        private String name;
        private int concurrency = 10;
        private int prefetch;
        private Duration lease = Duration.ofSeconds(30);
        private Duration shutdownTimeout = Duration.ofSeconds(30);

        private Builder(Client client) {
            this.client = client;
        }

        /**
         * Sets the name, which is shown with the worker's jobs and in their history.
         *
         * @param name 1 to 128 bytes; defaults to the name of the host and the process id
         * @return this builder
         */
        public Builder name(String name) {
            this.name = name;
            return this;
        }

        /**
         * Sets how many handlers of each queue run at once.
         *
         * @param concurrency the number, at least 1; defaults to 10
         * @return this builder
         */
        public Builder concurrency(int concurrency) {
            this.concurrency = atLeast(1, concurrency, "concurrency");
            return this;
        }

        /**
         * Sets how many more jobs of each queue are reserved in advance.
         *
         * @param prefetch the number; defaults to 0
         * @return this builder
         */
        public Builder prefetch(int prefetch) {
            this.prefetch = atLeast(0, prefetch, "prefetch");
            return this;
        }

        private static int atLeast(int min, int value, String name) {
            if (value < min) {
                throw new IllegalArgumentException(name + " must be at least " + min + ", got " + value);
            }
            return value;
        }

        /**
         * Sets the duration of the leases. The worker extends them at a third of it for as long as it
         * has the job, so this is how soon another worker gets the jobs of one that crashed.
         *
         * @param lease the duration; defaults to 30 seconds
         * @return this builder
         */
        public Builder lease(Duration lease) {
            if (lease.toMillis() < 3) {
                throw new IllegalArgumentException("lease must be at least 3 ms, got " + lease.toMillis() + " ms");
            }
            this.lease = lease;
            return this;
        }

        /**
         * Sets how long handlers may take after the worker was stopped.
         *
         * @param timeout the duration; defaults to 30 seconds
         * @return this builder
         */
        public Builder shutdownTimeout(Duration timeout) {
            this.shutdownTimeout = timeout;
            return this;
        }

        /**
         * Returns the worker, which has no handlers yet.
         *
         * @return the worker
         */
        public Worker build() {
            return new Worker(this);
        }
    }

    /**
     * Calls the handler for the jobs of a queue. Its value is the result of the job.
     *
     * @param queue the queue
     * @param handler the handler
     * @return this worker
     */
    public Worker handle(String queue, Handler handler) {
        handlers.put(queue, handler);
        return this;
    }

    /**
     * Performs the action for the jobs of a queue, which have no result.
     *
     * @param queue the queue
     * @param action the action
     * @return this worker
     */
    public Worker on(String queue, Action action) {
        return handle(queue, job -> {
            action.perform(job);
            return null;
        });
    }

    /**
     * Wraps all handlers. The first middleware is the outermost.
     *
     * @param middleware the middleware
     * @return this worker
     */
    public Worker use(Middleware middleware) {
        this.middleware.add(middleware);
        return this;
    }

    /**
     * Stops the worker when the JVM shuts down, for example by SIGTERM, and lets the JVM wait for it.
     *
     * @return this worker
     */
    public Worker stopOnShutdown() {
        Runtime.getRuntime().addShutdownHook(new Thread(this::close, "tickwheel-shutdown"));
        return this;
    }

    /**
     * Works until {@link #stop}, and then shuts down: stops reserving, releases jobs that no handler
     * has begun, waits for the handlers, and releases what is left after the shutdown timeout. It
     * survives restarts of the server. A worker runs once.
     *
     * @return whether all handlers ended in time
     * @throws IllegalStateException if the worker has no handlers, or was run before
     */
    public boolean run() {
        if (handlers.isEmpty()) {
            throw new IllegalStateException("the worker has no handlers: call handle or on before run");
        }
        synchronized (this) {
            if (started) {
                throw new IllegalStateException("the worker was run before");
            }
            started = true;
        }
        List<Consumer> consumers = new ArrayList<>();
        handlers.forEach((queue, handler) -> consumers.add(new Consumer(this, queue, wrap(handler))));
        try {
            consumers.forEach(Consumer::start);
            awaitStop();
            consumers.forEach(Consumer::stopReserving);
            long deadline = System.nanoTime() + shutdownTimeout.toNanos();
            boolean isClean = true;
            for (Consumer consumer : consumers) {
                isClean &= consumer.finish(deadline);
            }
            return isClean;
        } finally {
            ended.countDown();
        }
    }

    private Handler wrap(Handler handler) {
        Handler wrapped = handler;
        for (int i = middleware.size() - 1; i >= 0; i--) {
            Middleware outer = middleware.get(i);
            Handler inner = wrapped;
            wrapped = job -> outer.handle(job, inner);
        }
        return wrapped;
    }

    private void awaitStop() {
        try {
            stopped.await();
        } catch (InterruptedException error) {
            // An interrupt stops the worker, too.
            stop();
        }
    }

    boolean isStopped() {
        return stopped.getCount() == 0;
    }

    /** Lets {@link #run} shut down, without waiting for it. */
    public void stop() {
        stopped.countDown();
    }

    /** Lets {@link #run} shut down, and waits until it has returned. */
    @Override
    public void close() {
        stop();
        if (started) {
            try {
                ended.await();
            } catch (InterruptedException error) {
                Thread.currentThread().interrupt();
            }
        }
    }
}
