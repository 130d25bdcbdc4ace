package io.github.tickwheel;

import static io.github.tickwheel.TestMain.check;
import static io.github.tickwheel.TestMain.equal;

import io.github.tickwheel.TestMain.Case;
import io.github.tickwheel.TestMain.Test;
import io.github.tickwheel.testing.Server;
import java.io.File;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Stream;

/**
 * Runs each Java program of the README and of the pages in docs/clients, in a process of its own,
 * against a real server. A program that works for ever ends by SIGTERM after it has done a job.
 */
final class SnippetTest {
    private static final Pattern BLOCK = Pattern.compile("(?ms)^```java\n(.*?)^```");
    private static final Pattern CLASS = Pattern.compile("(?m)^(?:public )?(?:final )?class (\\w+)");

    private SnippetTest() {}

    @Test
    static List<Case> snippets() throws Exception {
        List<Path> pages = new ArrayList<>(List.of(Repository.path("clients/java/README.md")));
        try (Stream<Path> files = Files.list(Repository.path("docs/clients"))) {
            files.filter(file -> file.toString().endsWith(".md")).sorted().forEach(pages::add);
        }
        List<Case> cases = new ArrayList<>();
        Set<String> seen = new HashSet<>();
        for (Path page : pages) {
            String text = Files.readString(page);
            Matcher blocks = BLOCK.matcher(text);
            while (blocks.find()) {
                String source = blocks.group(1);
                long line = text.substring(0, blocks.start()).lines().count() + 1;
                if (seen.add(source)) { // The Chinese pages have the same programs.
                    cases.add(new Case(page.getFileName() + " line " + line, () -> run(source)));
                }
            }
        }
        check(cases.size() > 5, "only " + cases.size() + " programs were found");
        return cases;
    }

    private static void run(String source) throws Exception {
        Matcher name = CLASS.matcher(source);
        check(name.find(), "the program has no class");
        Path folder = Files.createTempDirectory("tickwheel-snippet");
        Path file = folder.resolve(name.group(1) + ".java");
        Path log = folder.resolve("log");
        try (Server server = Server.start()) {
            Files.writeString(file, source.replace("http://127.0.0.1:7300", server.url()));
            String java = Path.of(System.getProperty("java.home"), "bin", "java").toString();
            Process program = new ProcessBuilder(
                            java, "-XX:TieredStopAtLevel=1", "-ea", "-cp", System.getProperty("java.class.path"), file.toString())
                    .redirectErrorStream(true)
                    .redirectOutput(new File(log.toString()))
                    .start();
            try {
                boolean isWorker = source.contains("stopOnShutdown");
                if (isWorker) {
                    letItWork(server.client(), program);
                    program.destroy();
                }
                int status = program.waitFor();
                // A JVM that ends by SIGTERM reports 143.
                check(status == (isWorker ? 143 : 0), "exit status " + status + "\n" + Files.readString(log));
                if (isWorker) {
                    equal(new Queue.Counts(0, 0, 0, 0, 0, 0), server.client().queue("orders").jobs());
                }
            } finally {
                program.destroyForcibly();
            }
        } finally {
            Files.deleteIfExists(log);
            Files.deleteIfExists(file);
            Files.delete(folder);
        }
    }

    /** Puts an order and waits until the worker has closed it. */
    private static void letItWork(Client client, Process program) {
        record Order(int order) {}
        try (EventStream<Event> events = client.events("orders")) {
            program.onExit().thenRun(events::close); // A program that fails ends the wait.
            client.put("orders", new Order(42));
            while (!events.next().event().equals("acked")) {
                // Other events of the job come before.
            }
        } catch (IllegalStateException closed) {
            // The exit status says more.
        }
    }
}
