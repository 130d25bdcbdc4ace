package io.github.tickwheel.testing;

import io.github.tickwheel.Client;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.stream.Stream;

/**
 * A real server on a manual clock, with a data directory of its own.
 *
 * <pre>{@code
 * try (Server server = Server.start()) {
 *     server.client().put(NewJob.of("orders", 42).delay(Duration.ofMinutes(30)));
 *     server.advance(Duration.ofMinutes(31));
 * }
 * }</pre>
 *
 * <p>The binary is the path in the environment variable {@code TICKWHEEL_BIN}, or {@code tickwheel}
 * on the path.
 */
public final class Server implements AutoCloseable {
    /** A guard against a server that hangs. */
    private static final Duration GUARD = Duration.ofSeconds(60);

    private final List<String> command;
    private final Path directory;
    private Process process;
    private String url;
    private final Client client;

    private Server(boolean isManual, String... arguments) {
        try {
            directory = Files.createTempDirectory("tickwheel");
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
        String binary = System.getenv().getOrDefault("TICKWHEEL_BIN", "tickwheel");
        command = new ArrayList<>(List.of(
                binary, "serve", "--clock", isManual ? "manual" : "system", "--access-log", "none", "--data", directory.toString()));
        command.addAll(List.of(arguments));
        launch("127.0.0.1:0");
        client = Client.connect(url);
    }

    /**
     * Starts a server on a manual clock.
     *
     * @param arguments further arguments of {@code tickwheel serve}
     * @return the server, to be closed
     */
    public static Server start(String... arguments) {
        return new Server(true, arguments);
    }

    /**
     * Starts a server on the clock of the system.
     *
     * @param arguments further arguments of {@code tickwheel serve}
     * @return the server, to be closed
     */
    public static Server startOnSystemClock(String... arguments) {
        return new Server(false, arguments);
    }

    /**
     * Returns the address.
     *
     * @return an address such as {@code http://127.0.0.1:41234}
     */
    public String url() {
        return url;
    }

    /**
     * Returns a client of the server.
     *
     * @return the client, which ends with the server
     */
    public Client client() {
        return client;
    }

    /**
     * Advances the clock. Returns when everything that is due at the new time is done.
     *
     * @param by how far
     */
    public void advance(Duration by) {
        client.advance(by);
    }

    /**
     * Stops the server, and starts it again with the same data at the same address.
     *
     * @param kill ends the process without warning
     */
    public void restart(boolean kill) {
        end(kill);
        launch(url.substring("http://".length()));
    }

    private void launch(String listen) {
        List<String> complete = new ArrayList<>(command);
        complete.addAll(List.of("--listen", listen));
        ProcessBuilder builder = new ProcessBuilder(complete).redirectOutput(ProcessBuilder.Redirect.DISCARD);
        builder.environment().keySet().removeIf(name -> name.startsWith("TICKWHEEL_"));
        try {
            process = builder.start();
        } catch (IOException error) {
            throw new UncheckedIOException("cannot start the server; set TICKWHEEL_BIN to the path of the binary", error);
        }
        CompletableFuture<String> address = new CompletableFuture<>();
        Process started = process;
        Thread reader = new Thread(() -> watch(started, address), "tickwheel-server");
        reader.setDaemon(true);
        reader.start();
        try {
            url = address.get(GUARD.toSeconds(), TimeUnit.SECONDS);
        } catch (ExecutionException | TimeoutException | InterruptedException error) {
            process.destroyForcibly();
            throw new IllegalStateException("the server does not listen: " + error.getMessage(), error);
        }
    }

    /** Reports the address and keeps reading, so that the pipe never fills. */
    private static void watch(Process process, CompletableFuture<String> address) {
        StringBuilder log = new StringBuilder();
        try (BufferedReader lines =
                new BufferedReader(new InputStreamReader(process.getErrorStream(), StandardCharsets.UTF_8))) {
            for (String line = lines.readLine(); line != null; line = lines.readLine()) {
                int found = line.indexOf("listening on ");
                if (found >= 0) {
                    address.complete(line.substring(found + "listening on ".length()).split("\\s")[0]);
                    process.getErrorStream().transferTo(OutputStream.nullOutputStream());
                    return;
                }
                log.append(line).append('\n');
            }
        } catch (IOException error) {
            log.append(error.getMessage());
        }
        address.completeExceptionally(new IllegalStateException("it ended:\n" + log));
    }

    private void end(boolean kill) {
        if (kill) {
            process.destroyForcibly();
        } else {
            process.destroy();
        }
        try {
            if (!process.waitFor(GUARD.toSeconds(), TimeUnit.SECONDS)) {
                process.destroyForcibly().waitFor();
                throw new IllegalStateException("the server did not end within " + GUARD.toSeconds() + " s");
            }
        } catch (InterruptedException error) {
            Thread.currentThread().interrupt();
        }
    }

    /** Kills the server and removes its data. */
    @Override
    public void close() {
        client.close();
        end(true);
        try (Stream<Path> files = Files.walk(directory)) {
            for (Path file : files.sorted(Comparator.reverseOrder()).toList()) {
                Files.delete(file);
            }
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }
}
