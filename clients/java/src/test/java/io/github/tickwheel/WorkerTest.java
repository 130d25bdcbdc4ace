package io.github.tickwheel;

import static io.github.tickwheel.TestMain.check;
import static io.github.tickwheel.TestMain.equal;
import static io.github.tickwheel.TestMain.thrown;

import io.github.tickwheel.TestMain.Test;
import io.github.tickwheel.testing.Fake;
import io.github.tickwheel.testing.Server;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.atomic.AtomicInteger;

final class WorkerTest {
    private WorkerTest() {}

    private static CompletableFuture<Boolean> start(Worker worker) {
        return CompletableFuture.supplyAsync(worker::run, task -> new Thread(task).start());
    }

    private static long until(Fake fake) {
        return (long) ((Map<?, ?>) fake.jobs("q").get(0).get("lease")).get("until_ms");
    }

    @Test
    static void aLongHandlerKeepsItsLease() throws Exception {
        Fake fake = new Fake();
        Client client = fake.client();
        client.put("q", 1);
        AtomicInteger calls = new AtomicInteger();
        Worker worker = Worker.builder(client).lease(Duration.ofMillis(300)).build();
        worker.on("q", job -> {
            calls.incrementAndGet();
            // Each round takes the job to the verge of expiry and waits for the next extension.
            for (int round = 0; round < 3; round++) {
                long before = until(fake);
                fake.advance(Duration.ofMillis(290));
                while (until(fake) == before) {
                    Thread.sleep(1);
                }
            }
            worker.stop();
        });
        check(start(worker).get(), "the shutdown took too long");
        equal(1, calls.get());
        equal(List.of(), fake.jobs("q"));
    }

    @Test
    static void aHandlerIsInterruptedWhenItsLeaseIsLost() throws Exception {
        Fake fake = new Fake();
        Client client = fake.client();
        client.put("q", 1);
        CountDownLatch interrupted = new CountDownLatch(1);
        Worker worker = Worker.builder(client).lease(Duration.ofMillis(30)).build();
        worker.on("q", job -> {
            client.cancel(job.id());
            try {
                new CountDownLatch(1).await();
            } catch (InterruptedException error) {
                interrupted.countDown();
            }
        });
        CompletableFuture<Boolean> run = start(worker);
        interrupted.await();
        worker.stop();
        check(run.get(), "the shutdown took too long");
    }

    @Test
    static void shutdownFinishesAndReleases() throws Exception {
        Fake fake = new Fake();
        Client client = fake.client();
        for (int i = 0; i < 3; i++) {
            client.put("q", i);
        }
        CountDownLatch begun = new CountDownLatch(1);
        CountDownLatch finish = new CountDownLatch(1);
        Worker worker = Worker.builder(client).concurrency(1).prefetch(5).build();
        worker.on("q", job -> {
            begun.countDown();
            finish.await();
        });
        CompletableFuture<Boolean> run = start(worker);
        begun.await();
        worker.stop();
        finish.countDown();
        check(run.get(), "the shutdown took too long");
        equal(2, fake.jobs("q").size());
        for (Map<String, Object> job : fake.jobs("q")) {
            check("ready".equals(job.get("state")) && job.get("attempts").equals(0L), job);
        }
    }

    @Test
    static void aHandlerThatDoesNotEndIsGivenUp() throws Exception {
        Fake fake = new Fake();
        Client client = fake.client();
        client.put("q", 1);
        CountDownLatch begun = new CountDownLatch(1);
        CountDownLatch interrupted = new CountDownLatch(1);
        Worker worker = Worker.builder(client).shutdownTimeout(Duration.ofMillis(1)).build();
        worker.on("q", job -> {
            begun.countDown();
            try {
                new CountDownLatch(1).await();
            } catch (InterruptedException error) {
                interrupted.countDown();
            }
        });
        CompletableFuture<Boolean> run = start(worker);
        begun.await();
        worker.stop();
        check(!run.get(), "the handler cannot have ended in time");
        interrupted.await();
        equal("ready", fake.jobs("q").get(0).get("state"));
    }

    @Test
    static void anErrorFailsTheJobAndMiddlewareSeesIt() throws Exception {
        Fake fake = new Fake();
        Client client = fake.client();
        client.put("q", "a");
        BlockingQueue<String> order = new LinkedBlockingQueue<>();
        Worker worker = Worker.builder(client).build();
        worker.on("q", job -> {
            throw new StackOverflowError("no luck");
        });
        for (String name : List.of("outer", "inner")) {
            worker.use((job, next) -> {
                order.add(name);
                try {
                    return next.handle(job);
                } finally {
                    worker.stop();
                }
            });
        }
        check(start(worker).get(), "the shutdown took too long");
        equal(List.of("outer", "inner"), List.copyOf(order));
        Map<String, Object> job = fake.jobs("q").get(0);
        check("scheduled".equals(job.get("state")) && ((String) job.get("last_error")).contains("no luck"), job);
    }

    @Test
    static void theServerKnowsTheNameOfTheWorker() throws Exception {
        Fake fake = new Fake();
        Client client = fake.client();
        client.put("q", 1);
        BlockingQueue<Object> leases = new LinkedBlockingQueue<>();
        Worker worker = Worker.builder(client).name("closer-1").build();
        worker.on("q", job -> {
            leases.add(client.get(job.id()).lease().worker());
            worker.stop();
        });
        start(worker).get();
        equal("closer-1", leases.take());
    }

    @Test
    static void aWorkerSurvivesAServerThatIsKilled() throws Exception {
        try (Server server = Server.start()) {
            Client client = server.client();
            CountDownLatch begun = new CountDownLatch(1);
            CountDownLatch finish = new CountDownLatch(1);
            BlockingQueue<Object> done = new LinkedBlockingQueue<>();
            Worker worker = Worker.builder(client).concurrency(1).build();
            worker.on("q", job -> {
                begun.countDown();
                finish.await();
                done.add(job.payload());
            });
            CompletableFuture<Boolean> run = start(worker);
            client.put("q", 1);
            begun.await();
            server.restart(true); // The worker holds a job, and reports it to the new process.
            finish.countDown();
            client.put("q", 2);
            equal(1L, done.take());
            equal(2L, done.take());
            worker.stop();
            check(run.get(), "the shutdown took too long");
            equal(new Queue.Counts(0, 0, 0, 0, 0, 0), client.queue("q").jobs());
        }
    }

    @Test
    static void aResultThatTheServerRefusesFailsTheJob() throws Exception {
        try (Server server = Server.start()) {
            Client client = server.client();
            PutResult put = client.put("q", 1);
            Worker worker = Worker.builder(client).build();
            worker.handle("q", job -> {
                worker.stop();
                return "x".repeat(3 << 20);
            });
            check(start(worker).get(), "the shutdown took too long");
            check(client.get(put.id()).lastError().contains("the outcome was refused"), client.get(put.id()));
        }
    }

    @Test
    static void aWorkerWithoutHandlersIsRefused() {
        thrown(IllegalStateException.class, () -> Worker.builder(new Fake().client()).build().run());
        thrown(IllegalArgumentException.class, () -> Worker.builder(new Fake().client()).concurrency(0));
    }
}
