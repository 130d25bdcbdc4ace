package io.github.tickwheel;

import static io.github.tickwheel.TestMain.check;
import static io.github.tickwheel.TestMain.equal;

import io.github.tickwheel.TestMain.Test;
import io.github.tickwheel.testing.Server;
import java.io.File;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Collections;
import java.util.Deque;
import java.util.List;
import java.util.Random;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.stream.Stream;

/**
 * Kills servers and workers while jobs are put and handled, and checks that nothing is lost. {@code
 * TICKWHEEL_SOAK_SECONDS} sets for how long (3 by default, the short form).
 */
final class SoakTest {
    private static final double SECONDS = Double.parseDouble(System.getenv().getOrDefault("TICKWHEEL_SOAK_SECONDS", "3"));

    private SoakTest() {}

    /** A worker in a process of its own: writes the number of each job to a file. */
    static final class WorkerProcess {
        private WorkerProcess() {}

        public static void main(String[] arguments) {
            Path out = Path.of(arguments[1]);
            Client client = Client.connect(arguments[0]);
            Worker worker = Worker.builder(client).concurrency(4).prefetch(4).lease(Duration.ofSeconds(1)).build();
            worker.on("soak", job -> Files.writeString(
                    out, job.payload() + "\n", StandardOpenOption.CREATE, StandardOpenOption.APPEND));
            worker.stopOnShutdown();
            worker.run();
        }
    }

    private static Process startWorker(Server server, Path out) throws IOException {
        String java = Path.of(System.getProperty("java.home"), "bin", "java").toString();
        return new ProcessBuilder(
                        java, "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-cp", System.getProperty("java.class.path"),
                        WorkerProcess.class.getName(), server.url(), out.toString())
                .redirectErrorStream(true)
                .redirectOutput(new File(out + ".log"))
                .start();
    }

    @Test
    static void nothingIsLostWhenServersAndWorkersAreKilled() throws Exception {
        Path folder = Files.createTempDirectory("tickwheel-soak");
        Deque<Process> workers = new ArrayDeque<>();
        AtomicBoolean isOver = new AtomicBoolean();
        try (Server server = Server.startOnSystemClock()) {
            List<Long> put = Collections.synchronizedList(new ArrayList<>());
            List<Throwable> errors = Collections.synchronizedList(new ArrayList<>());
            List<Thread> producers = new ArrayList<>();
            for (int i = 0; i < 4; i++) {
                long first = i * 1_000_000L;
                producers.add(new Thread(() -> produce(server, first, put, errors, isOver)));
                producers.get(i).start();
            }
            Random random = new Random();
            int number = 0;
            for (; number < 2; number++) {
                workers.add(startWorker(server, folder.resolve(number + ".out")));
            }
            long end = System.nanoTime() + (long) (SECONDS * 1e9);
            for (int kills = 0; System.nanoTime() < end || kills < 2; kills++, number++) {
                Thread.sleep(300 + random.nextInt(400));
                Process worker = workers.remove();
                if (random.nextBoolean()) {
                    worker.destroy();
                } else {
                    worker.destroyForcibly();
                }
                worker.waitFor();
                workers.add(startWorker(server, folder.resolve(number + ".out")));
                if (kills == 0 || random.nextBoolean()) {
                    server.restart(true);
                }
            }
            isOver.set(true);
            for (Thread producer : producers) {
                producer.join();
            }
            waitUntilEmpty(server.client());
            equal(List.of(), errors);
            check(put.size() > 20, "only " + put.size() + " jobs were put");
            Set<Long> lost = new TreeSet<>(put);
            lost.removeAll(handled(folder));
            equal(Set.of(), lost);
        } finally {
            isOver.set(true);
            workers.forEach(Process::destroyForcibly);
            try (Stream<Path> files = Files.list(folder)) {
                for (Path file : files.toList()) {
                    Files.delete(file);
                }
            }
            Files.delete(folder);
        }
    }

    private static void produce(Server server, long first, List<Long> put, List<Throwable> errors, AtomicBoolean isOver) {
        RetryPolicy patient = new RetryPolicy(100, Duration.ofMillis(50), Duration.ofSeconds(1));
        try (Client client = Client.builder(server.url()).retry(patient).build()) {
            for (long number = first; !isOver.get(); number++) {
                client.put(NewJob.of("soak", number).maxAttempts(1000).delay(Duration.ofMillis(number % 50)));
                put.add(number);
                Thread.sleep(5);
            }
        } catch (RuntimeException | InterruptedException error) {
            errors.add(error);
        }
    }

    private static void waitUntilEmpty(Client client) throws InterruptedException {
        while (true) {
            Queue.Counts jobs = client.queue("soak").jobs();
            equal(0L, jobs.dead());
            if (jobs.scheduled() + jobs.ready() + jobs.leased() == 0) {
                return;
            }
            Thread.sleep(50);
        }
    }

    private static Set<Long> handled(Path folder) throws IOException {
        Set<Long> handled = new TreeSet<>();
        try (Stream<Path> files = Files.list(folder)) {
            for (Path file : files.filter(path -> path.toString().endsWith(".out")).toList()) {
                Files.readAllLines(file).forEach(line -> handled.add(Long.parseLong(line)));
            }
        }
        return handled;
    }
}
