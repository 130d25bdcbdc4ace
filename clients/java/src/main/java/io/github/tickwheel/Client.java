package io.github.tickwheel;

import java.net.URI;
import java.net.http.HttpClient;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayDeque;
import java.util.Iterator;
import java.util.List;
import java.util.NoSuchElementException;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.ExecutionException;

/**
 * A client of a Tickwheel server. It is safe for use by several threads; create one and share it.
 *
 * <pre>{@code
 * Client client = Client.connect("http://127.0.0.1:7300");
 * client.put(NewJob.of("orders", new Order(42)).delay(Duration.ofMinutes(30)).key("order-42"));
 * client.cancelByKey("orders", "order-42");
 * }</pre>
 *
 * <p>Methods throw {@link ProblemException} if the server refuses, and {@link ConnectionException} if
 * it cannot be reached. They repeat requests that were refused for now (429, 503) or got no answer.
 */
public final class Client extends ServerOperations implements AutoCloseable {
    private final Batcher puts;

    private Client(Builder builder, Transport transport) {
        super(transport, builder.token, builder.timeout, builder.retry);
        puts = builder.window.isZero() ? null : new Batcher(this, builder.window, builder.batchSize);
    }

    /**
     * Returns a client with the default settings. It does not connect yet.
     *
     * @param address the address of the server, such as {@code http://127.0.0.1:7300}
     * @return the client
     * @throws IllegalArgumentException if the address is not one of HTTP
     */
    public static Client connect(String address) {
        return builder(address).build();
    }

    /**
     * Returns a builder of a client.
     *
     * @param address the address of the server, such as {@code http://127.0.0.1:7300}
     * @return the builder
     */
    public static Builder builder(String address) {
        return new Builder(address);
    }

    /** The settings of a new client. */
    public static final class Builder {
        private final String address;
        private String token;
        private Duration timeout = Duration.ofSeconds(30);
        private RetryPolicy retry = RetryPolicy.DEFAULT;
        private Duration window = Duration.ofMillis(1);
        private int batchSize = 1000;
        private HttpClient http;
        private Transport transport;

        private Builder(String address) {
            this.address = address;
        }

        /**
         * Sends a token with each request.
         *
         * @param token the token
         * @return this builder
         */
        public Builder token(String token) {
            this.token = token;
            return this;
        }

        /**
         * Limits each attempt of a request. The wait of a reserve is added to it.
         *
         * @param timeout the limit; defaults to 30 seconds
         * @return this builder
         */
        public Builder timeout(Duration timeout) {
            this.timeout = timeout;
            return this;
        }

        /**
         * Sets how requests are repeated.
         *
         * @param retry the policy; defaults to {@link RetryPolicy#DEFAULT}
         * @return this builder
         */
        public Builder retry(RetryPolicy retry) {
            this.retry = retry;
            return this;
        }

        /**
         * Sets how long a put waits for others to travel in the same request, and how many travel
         * together at most.
         *
         * @param window the wait; defaults to a millisecond, and zero sends each put at once
         * @param size the number of puts; defaults to 1,000
         * @return this builder
         */
        public Builder batching(Duration window, int size) {
            this.window = window;
            this.batchSize = size;
            return this;
        }

        /**
         * Sends requests through a client of your own, for example with a certificate authority of
         * your own.
         *
         * @param http the client
         * @return this builder
         */
        public Builder http(HttpClient http) {
            this.http = http;
            return this;
        }

        /**
         * Sends requests through a transport of your own, for example {@link
         * io.github.tickwheel.testing.Fake}.
         *
         * @param transport the transport
         * @return this builder
         */
        public Builder transport(Transport transport) {
            this.transport = transport;
            return this;
        }

        /**
         * Returns the client.
         *
         * @return the client
         * @throws IllegalArgumentException if the address is not one of HTTP
         */
        public Client build() {
            if (transport != null) {
                return new Client(this, transport);
            }
            if (http == null) {
                http = HttpClient.newBuilder().version(HttpClient.Version.HTTP_1_1).build();
            }
            return new Client(this, new HttpTransport(checked(address), http));
        }

        private static String checked(String address) {
            try {
                URI uri = URI.create(address);
                if (uri.getHost() != null && ("http".equals(uri.getScheme()) || "https".equals(uri.getScheme()))) {
                    return address.replaceFirst("/+$", "");
                }
            } catch (IllegalArgumentException error) {
                // Reported below.
            }
            throw new IllegalArgumentException(
                    "\"" + address + "\" is not the address of a server: write one like http://127.0.0.1:7300");
        }
    }

    /** Sends the puts that wait, and ends the threads of the client. */
    @Override
    public void close() {
        if (puts != null) {
            puts.close();
        }
    }

    /**
     * Puts a job that is due at once.
     *
     * @param queue the queue
     * @param payload a value with a form in JSON; see {@link NewJob#of}
     * @return the answer
     */
    public PutResult put(String queue, Object payload) {
        return put(NewJob.of(queue, payload));
    }

    /**
     * Puts a job. Returns when it is on disk. Puts that run at the same time travel together; see
     * {@link Builder#batching}.
     *
     * @param job the job
     * @return the answer
     */
    public PutResult put(NewJob job) {
        NewJob traced = job.traced();
        if (puts == null || job.idempotencyKey() != null) {
            return putAlone(traced);
        }
        try {
            for (int attempt = 0; ; attempt++) {
                try {
                    return await(puts.put(traced));
                } catch (ItemRefused refused) {
                    // The batch was accepted, but this item of it was refused. A refusal of the
                    // whole request has been repeated already.
                    ProblemException problem = refused.problem;
                    if (attempt >= retry.max() || !problem.isRefusedForNow()) {
                        throw problem;
                    }
                    retry.sleep(attempt, problem);
                }
            }
        } catch (InterruptedException error) {
            throw interrupted(error);
        }
    }

    /** The problem of one item in a batch that the server accepted. */
    static final class ItemRefused extends Exception {
        private static final long serialVersionUID = 1;
        private final transient ProblemException problem;

        ItemRefused(ProblemException problem) {
            this.problem = problem;
        }
    }

    private static PutResult await(CompletableFuture<PutResult> pending) throws InterruptedException, ItemRefused {
        try {
            return pending.get();
        } catch (ExecutionException error) {
            if (error.getCause() instanceof ItemRefused refused) {
                throw refused;
            }
            // Thrown again from here, so that the trace shows the caller.
            if (error.getCause() instanceof ProblemException problem) {
                throw new ProblemException(problem.problem(), problem.retryAfter());
            } else if (error.getCause() instanceof ConnectionException connection) {
                throw new ConnectionException(connection.getMessage(), connection);
            }
            throw new TickwheelException(error.getCause().getMessage(), error.getCause());
        }
    }

    /**
     * Puts a job without waiting for the answer.
     *
     * @param job the job
     * @return the answer; fails with a {@link TickwheelException}
     */
    public CompletableFuture<PutResult> putAsync(NewJob job) {
        NewJob traced = job.traced();
        if (puts == null || job.idempotencyKey() != null) {
            return CompletableFuture.supplyAsync(() -> putAlone(traced), Batcher.SENDERS);
        }
        return puts.put(traced).exceptionallyCompose(error -> {
            Throwable cause = error instanceof CompletionException ? error.getCause() : error;
            if (!(cause instanceof ItemRefused refused)) {
                return CompletableFuture.failedFuture(cause);
            } else if (!refused.problem.isRefusedForNow()) {
                return CompletableFuture.failedFuture(refused.problem);
            }
            return CompletableFuture.supplyAsync(() -> putAlone(traced), Batcher.SENDERS);
        });
    }

    PutResult putAlone(NewJob job) {
        Call call = new Call("POST", "v1", "queues", job.queue(), "jobs").body(job.fields());
        call.idempotencyKey = job.idempotencyKey() == null ? newIdempotencyKey() : job.idempotencyKey();
        return call(PutResult.class, call);
    }

    /**
     * Puts up to 10,000 jobs in one commit.
     *
     * @param jobs the jobs
     * @return a result for each, in their order
     */
    public List<Result<PutResult>> putMany(List<NewJob> jobs) {
        return putMany(jobs, null);
    }

    /**
     * Puts up to 10,000 jobs in one commit, with an idempotency key of your own.
     *
     * @param jobs the jobs
     * @param idempotencyKey as {@link NewJob#idempotencyKey}, for the whole batch; {@code null}
     *     generates one
     * @return a result for each, in their order
     */
    public List<Result<PutResult>> putMany(List<NewJob> jobs, String idempotencyKey) {
        String key = idempotencyKey == null ? newIdempotencyKey() : idempotencyKey;
        return batch("", jobs.stream().map(job -> job.traced().fields()).toList(), key, PutResult.class);
    }

    /**
     * Imports jobs of another server, with their ids. A job whose id exists is refused, so that an
     * import can be repeated.
     *
     * @param jobs the jobs
     * @return the id of each job
     */
    public List<Result<String>> importMany(List<ImportedJob> jobs) {
        return batchOf("import", jobs.stream().map(ImportedJob::fields).toList(), "id", String.class);
    }

    /**
     * Returns the job with the id.
     *
     * @param id the id
     * @return the job
     */
    public Job get(String id) {
        return call(Job.class, new Call("GET", "v1", "jobs", id));
    }

    /**
     * Returns the live job with the key.
     *
     * @param queue the queue
     * @param key the key
     * @return the job
     */
    public Job getByKey(String queue, String key) {
        return call(Job.class, new Call("GET", "v1", "queues", queue, "keys", key));
    }

    /**
     * Returns the ids of the jobs that a short id stands for.
     *
     * @param shortId the first four or more digits of an id, or the first twelve, two dots and some
     *     of the last: {@code 01890a5dac96..9a8057}
     * @return the ids
     */
    public List<String> findIds(String shortId) {
        return list("ids", String.class, new Call("GET", "v1", "ids", shortId));
    }

    /**
     * Cancels the job with the id.
     *
     * @param id the id
     * @return the state in which it was
     */
    public State cancel(String id) {
        return member("was", State.class, new Call("DELETE", "v1", "jobs", id));
    }

    /**
     * Cancels the live job with the key.
     *
     * @param queue the queue
     * @param key the key
     * @return the state in which it was
     */
    public State cancelByKey(String queue, String key) {
        return member("was", State.class, new Call("DELETE", "v1", "queues", queue, "keys", key));
    }

    /**
     * Cancels jobs.
     *
     * @param ids the jobs
     * @return a result for each
     */
    public List<Result<State>> cancelMany(List<String> ids) {
        return batchOf("cancel", ids.stream().map(id -> fields("id", id)).toList(), "was", State.class);
    }

    /**
     * Changes the due time of the job with the id to a delay from now.
     *
     * @param id the id
     * @param delay the delay
     * @return the new due time
     */
    public Instant reschedule(String id, Duration delay) {
        return reschedule(new Call("POST", "v1", "jobs", id, "reschedule"), delay, null);
    }

    /**
     * Changes the due time of the job with the id.
     *
     * @param id the id
     * @param due the point in time
     * @return the new due time
     */
    public Instant reschedule(String id, Instant due) {
        return reschedule(new Call("POST", "v1", "jobs", id, "reschedule"), null, due);
    }

    /**
     * Changes the due time of the live job with the key to a delay from now.
     *
     * @param queue the queue
     * @param key the key
     * @param delay the delay
     * @return the new due time
     */
    public Instant rescheduleByKey(String queue, String key, Duration delay) {
        return reschedule(new Call("POST", "v1", "queues", queue, "keys", key, "reschedule"), delay, null);
    }

    /**
     * Changes the due time of the live job with the key.
     *
     * @param queue the queue
     * @param key the key
     * @param due the point in time
     * @return the new due time
     */
    public Instant rescheduleByKey(String queue, String key, Instant due) {
        return reschedule(new Call("POST", "v1", "queues", queue, "keys", key, "reschedule"), null, due);
    }

    private Instant reschedule(Call call, Duration delay, Instant due) {
        return member("due_ms", Instant.class, call.body(fields("delay", millis(delay), "due", millis(due))));
    }

    /**
     * Changes the due times of jobs.
     *
     * @param items the jobs with their new times
     * @return the new due time of each
     */
    public List<Result<Instant>> rescheduleMany(List<RescheduleItem> items) {
        List<?> wire = items.stream()
                .map(item -> fields("id", item.id(), "delay", millis(item.delay()), "due", millis(item.due())))
                .toList();
        return batchOf("reschedule", wire, "due_ms", Instant.class);
    }

    /**
     * Returns a page of the jobs of a queue, by due time.
     *
     * @param queue the queue
     * @param options what narrows the list
     * @return the page
     */
    public Job.Page list(String queue, ListOptions options) {
        return call(Job.Page.class, new Call("GET", "v1", "queues", queue, "jobs").query(fields(
                "state", options.state(), "due_from", millis(options.dueFrom()), "due_to", millis(options.dueTo()),
                "key", options.key(), "key_prefix", options.keyPrefix(), "error", options.error(),
                "error_group", options.errorGroup(), "limit", options.limit(), "page", options.page())));
    }

    /**
     * Returns the jobs of all pages. Pages are fetched as they are needed.
     *
     * @param queue the queue
     * @param options what narrows the list
     * @return the jobs
     */
    public Iterable<Job> listAll(String queue, ListOptions options) {
        return () -> new Iterator<>() {
            private final ArrayDeque<Job> jobs = new ArrayDeque<>();
            private ListOptions next = options;

            @Override
            public boolean hasNext() {
                while (jobs.isEmpty() && next != null) {
                    Job.Page page = list(queue, next);
                    jobs.addAll(page.jobs());
                    next = page.next() == null ? null : next.page(page.next());
                }
                return !jobs.isEmpty();
            }

            @Override
            public Job next() {
                if (!hasNext()) {
                    throw new NoSuchElementException();
                }
                return jobs.poll();
            }
        };
    }
}
