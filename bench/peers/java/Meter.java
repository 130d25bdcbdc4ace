import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.Map;
import java.util.function.ToLongFunction;
import java.util.stream.Stream;

/**
 * Processor time and context switches of all threads of this process, the collector's and the
 * compiler's included, and time on the wall.
 *
 * The JVM's own getProcessCpuTime counts in steps of 10 ms. The scheduler's figures for each thread
 * are exact up to when the thread last left a processor; so whoever reads them sleeps first.
 */
final class Meter {
    private final Map<String, Long> processorBefore;
    private final long wallBefore;

    private Meter() {
        processorBefore = processorNanos();
        wallBefore = System.nanoTime();
    }

    /** What something took. */
    record Reading(double cpuNanos, double wallNanos) {}

    static Meter start() {
        Lateness.sleep(2);
        return new Meter();
    }

    Reading stop() {
        double wall = System.nanoTime() - wallBefore;
        Lateness.sleep(2);
        return new Reading(grown(processorBefore, processorNanos()), wall);
    }

    static Map<String, Long> processorNanos() {
        return ofEachThread(thread -> {
            String text = read(thread.resolve("schedstat"));
            return text.isEmpty() ? 0 : Long.parseLong(text.substring(0, text.indexOf(' ')));
        });
    }

    static Map<String, Long> switches() {
        return ofEachThread(thread -> read(thread.resolve("status"))
                .lines()
                .filter(line -> line.contains("voluntary_ctxt_switches"))
                .mapToLong(line -> Long.parseLong(line.substring(line.indexOf(':') + 1).trim()))
                .sum());
    }

    /** The sum of what each thread has more than before. */
    static double grown(Map<String, Long> before, Map<String, Long> after) {
        double sum = 0;
        for (Map.Entry<String, Long> thread : after.entrySet()) {
            sum += thread.getValue() - before.getOrDefault(thread.getKey(), 0L);
        }
        return sum;
    }

    private static Map<String, Long> ofEachThread(ToLongFunction<Path> figure) {
        Map<String, Long> figures = new HashMap<>();
        try (Stream<Path> threads = Files.list(Path.of("/proc/self/task"))) {
            threads.forEach(
                    thread -> figures.put(thread.toString(), figure.applyAsLong(thread)));
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
        return figures;
    }

    /** A file of /proc; empty if its thread has ended meanwhile. */
    private static String read(Path file) {
        try {
            return Files.readString(file);
        } catch (IOException gone) {
            return "";
        }
    }
}
