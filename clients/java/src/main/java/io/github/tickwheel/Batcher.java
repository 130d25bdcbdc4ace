package io.github.tickwheel;

import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.ScheduledThreadPoolExecutor;
import java.util.concurrent.ThreadFactory;
import java.util.concurrent.TimeUnit;

/**
 * Sends puts that arrive within a short window in one request.
 *
 * <p>The first put of a batch starts a timer. When it fires, or when the batch is full, the batch is
 * sent, and the next put starts a new one. Several batches may be on the way at once.
 */
final class Batcher implements AutoCloseable {
    /** Keeps a batch below the server's default limit for a body, 8 MiB. */
    private static final int MAX_BATCH_BYTES = 4 << 20;
    /** The server refused a batch for what it contains. */
    private static final Set<Integer> REFUSALS_OF_CONTENT = Set.of(400, 403, 404, 413, 422);

    private static final ThreadFactory DAEMONS = task -> {
        Thread thread = new Thread(task, "tickwheel-puts");
        thread.setDaemon(true);
        return thread;
    };
    /** The threads that send batches, shared by all clients. Idle ones end after a minute. */
    static final ExecutorService SENDERS = Executors.newCachedThreadPool(DAEMONS);

    private final Client client;
    private final Duration window;
    private final int size;
    private final ScheduledThreadPoolExecutor timer = new ScheduledThreadPoolExecutor(1, DAEMONS);

    // Guarded by this.
    private List<WaitingPut> open = new ArrayList<>();
    private int bytes;
    private Future<?> flush;

    private record WaitingPut(NewJob job, Object encoded, CompletableFuture<PutResult> answer) {}

    Batcher(Client client, Duration window, int size) {
        this.client = client;
        this.window = window;
        this.size = size;
        timer.setRemoveOnCancelPolicy(true);
        timer.setExecuteExistingDelayedTasksAfterShutdownPolicy(false);
    }

    /** Adds the job to the open batch. The answer fails with ItemRefused for a refusal of this item. */
    CompletableFuture<PutResult> put(NewJob job) {
        int length = Json.write(job.fields()).getBytes(StandardCharsets.UTF_8).length;
        WaitingPut waiting = new WaitingPut(job, job.fields(), new CompletableFuture<>());
        add(waiting, length);
        return waiting.answer();
    }

    private synchronized void add(WaitingPut waiting, int length) {
        if (bytes + length > MAX_BATCH_BYTES) {
            flush();
        }
        open.add(waiting);
        bytes += length;
        if (open.size() >= size || timer.isShutdown()) {
            flush();
        } else if (open.size() == 1) {
            flush = timer.schedule(this::flush, window.toNanos(), TimeUnit.NANOSECONDS);
        }
    }

    private synchronized void flush() {
        if (open.isEmpty()) {
            return;
        }
        if (flush != null) {
            flush.cancel(false);
        }
        List<WaitingPut> batch = open;
        open = new ArrayList<>();
        bytes = 0;
        SENDERS.execute(() -> send(batch));
    }

    private void send(List<WaitingPut> batch) {
        if (batch.size() == 1) {
            sendAlone(batch.get(0));
            return;
        }
        List<Result<PutResult>> results;
        try {
            List<Object> items = batch.stream().map(WaitingPut::encoded).toList();
            results = client.batch("", items, Caller.newIdempotencyKey(), PutResult.class);
        } catch (ProblemException problem) {
            if (REFUSALS_OF_CONTENT.contains(problem.status())) {
                // One item makes the whole batch invalid. Alone, only that one is refused.
                batch.forEach(waiting -> SENDERS.execute(() -> sendAlone(waiting)));
            } else {
                batch.forEach(waiting -> waiting.answer().completeExceptionally(problem));
            }
            return;
        } catch (RuntimeException error) {
            batch.forEach(waiting -> waiting.answer().completeExceptionally(error));
            return;
        }
        for (int i = 0; i < batch.size(); i++) {
            Result<PutResult> result = results.get(i);
            if (result.isOk()) {
                batch.get(i).answer().complete(result.ok());
            } else {
                ProblemException problem = new ProblemException(result.error(), Duration.ZERO);
                batch.get(i).answer().completeExceptionally(new Client.ItemRefused(problem));
            }
        }
    }

    private void sendAlone(WaitingPut waiting) {
        try {
            waiting.answer().complete(client.putAlone(waiting.job()));
        } catch (RuntimeException error) {
            waiting.answer().completeExceptionally(error);
        }
    }

    @Override
    public synchronized void close() {
        timer.shutdownNow();
        flush();
    }
}
