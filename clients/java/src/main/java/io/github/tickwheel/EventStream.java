package io.github.tickwheel;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.LinkedHashMap;
import java.util.Map;

/**
 * An open stream of events. Close it when you are done; closing it from another thread ends a call of
 * {@link #next}.
 *
 * <pre>{@code
 * try (EventStream<Event> events = client.events("orders")) {
 *     while (true) System.out.println(events.next());
 * }
 * }</pre>
 *
 * @param <T> {@link Event} or {@link Target.Change}
 */
public final class EventStream<T> implements AutoCloseable {
    private final Caller client;
    private final Caller.Call call;
    private final Class<T> type;
    private volatile InputStream body;
    private BufferedReader lines;
    private volatile boolean closed;
    private String lastId;

    /** Opens the stream. */
    EventStream(Caller client, Caller.Call call, Class<T> type) {
        this.client = client;
        this.call = call;
        this.type = type;
        retrying(this::connect);
    }

    private interface Step {
        void run() throws IOException, InterruptedException;
    }

    /** Repeats a step that fails for now. */
    private void retrying(Step step) {
        try {
            for (int attempt = 0; ; attempt++) {
                TickwheelException failure;
                try {
                    step.run();
                    return;
                } catch (IOException error) {
                    failure = new ConnectionException("cannot open " + call.path + ": " + error.getMessage(), error);
                } catch (ProblemException problem) {
                    failure = problem;
                }
                if (closed || attempt >= client.retry.max() || !Caller.isRepeatable(failure, false)) {
                    throw failure;
                }
                client.retry.sleep(attempt, failure);
            }
        } catch (InterruptedException error) {
            throw Caller.interrupted(error);
        }
    }

    private void connect() throws IOException, InterruptedException {
        if (lastId != null) {
            Map<String, Object> query = new LinkedHashMap<>(call.query);
            query.put("last_event_id", lastId);
            call.query(query);
        }
        Transport.Stream stream = client.transport.open(client.request(call, null));
        if (stream.status() != 200) {
            try (var body = stream.body()) {
                throw Caller.problem(new Transport.Response(stream.status(), null, body.readAllBytes()));
            }
        }
        body = stream.body();
        lines = new BufferedReader(new InputStreamReader(stream.body(), StandardCharsets.UTF_8));
        if (closed) {
            close();
        }
    }

    /**
     * Waits for the next event. When the connection breaks, reconnects and resumes after the last
     * event.
     *
     * @return the event
     * @throws IllegalStateException if the stream is closed
     * @throws TickwheelException if the server refuses the stream or cannot be reached
     */
    public T next() {
        while (!closed) {
            try {
                T event = read();
                if (event != null) {
                    return event;
                }
            } catch (IOException error) {
                // The connection broke; connect again.
            }
            if (!closed) {
                retrying(this::connect);
            }
        }
        throw new IllegalStateException("the stream is closed");
    }

    /** Returns the next event of the open connection, or null at its end. */
    private T read() throws IOException {
        String name = "";
        StringBuilder data = new StringBuilder();
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            int colon = line.indexOf(':');
            String value = colon < 0 ? "" : line.substring(colon + 1).stripLeading();
            switch (colon < 0 ? line : line.substring(0, colon)) {
                case "event" -> name = value;
                case "id" -> lastId = value;
                case "data" -> data.append(value);
                case "" -> {
                    // A comment, or an event without data: a position.
                    if (colon < 0 && data.length() > 0) {
                        return event(name, data.toString());
                    }
                }
                default -> { }
            }
        }
        return null;
    }

    private T event(String name, String data) {
        Map<String, Object> members = new LinkedHashMap<>();
        if (Json.parse(data) instanceof Map<?, ?> given) {
            given.forEach((key, value) -> members.put((String) key, value));
        }
        members.put("event", name);
        members.put("id", lastId);
        return Wire.read(members, type);
    }

    /** Ends the stream. */
    @Override
    public void close() {
        closed = true;
        InputStream open = body;
        if (open != null) {
            try {
                // Not the reader: it has a lock, which a thread that waits for a line holds.
                open.close();
            } catch (IOException error) {
                // The connection is gone already.
            }
        }
    }
}
