package io.github.tickwheel.testing;

import io.github.tickwheel.Client;
import io.github.tickwheel.Json;
import io.github.tickwheel.Transport;
import java.io.IOException;
import java.net.URLDecoder;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * A server in memory, on a manual clock, for unit tests. The ordinary client and worker use it through
 * {@link #client}; no socket is opened.
 *
 * <p>It has jobs, keys, leases, retries, batches, idempotency keys, pauses and the clock. It does not
 * have schedules, settings, targets, pacing, events and follow-ups, keeps no finished jobs except dead
 * ones, and validates little. Requests for the rest fail with the code {@code not-in-fake}. Use {@link
 * Server} for these.
 */
public final class Fake implements Transport {
    private final FakeJobs jobs = new FakeJobs();
    private final Map<String, Replay> replays = new LinkedHashMap<>();

    /** Makes a fake without jobs. */
    public Fake() {}

    private record Replay(String body, Response response) {}

    /** A refusal with a problem document. */
    static final class Refused extends Exception {
        private static final long serialVersionUID = 1;
        private final transient Map<String, Object> problem;

        Refused(int status, String code, String detail, String id) {
            super(detail);
            problem = new LinkedHashMap<>(Map.of("status", status, "code", code, "detail", detail, "request_id", "fake"));
            if (id != null) {
                problem.put("id", id);
            }
        }

        Refused(int status, String code, String detail) {
            this(status, code, detail, null);
        }
    }

    /**
     * Returns a client of the fake.
     *
     * @return the client
     */
    public Client client() {
        return Client.builder("http://fake").transport(this).build();
    }

    /**
     * Advances the clock: jobs become ready, and leases expire.
     *
     * @param by how far
     */
    public synchronized void advance(Duration by) {
        jobs.now += by.toMillis();
        jobs.settle();
        notifyAll();
    }

    /**
     * Returns the jobs of a queue, by due time.
     *
     * @param queue the queue
     * @return the jobs as the server shows them, with the members of the API
     */
    public synchronized List<Map<String, Object>> jobs(String queue) {
        return jobs.sorted(queue).stream().map(FakeJobs.Entry::show).toList();
    }

    @Override
    public Stream open(Request request) throws IOException {
        throw new IOException("the fake does not have " + request.path());
    }

    @Override
    public synchronized Response send(Request request) throws InterruptedException {
        String[] target = request.path().split("\\?", 2);
        String[] encoded = target[0].substring(1).split("/");
        String[] path = new String[Math.max(6, encoded.length)];
        for (int i = 0; i < path.length; i++) {
            path[i] = i < encoded.length ? URLDecoder.decode(encoded[i], StandardCharsets.UTF_8) : "";
        }
        String text = request.body() == null ? "{}" : new String(request.body(), StandardCharsets.UTF_8);
        String key = request.headers().get("idempotency-key");
        try {
            if (key != null && replays.containsKey(key)) {
                Replay replay = replays.get(key);
                if (!replay.body().equals(text)) {
                    throw new Refused(422, "idempotency-conflict", "the key was used with another request");
                }
                return replay.response();
            }
            @SuppressWarnings("unchecked")
            Map<String, Object> body = (Map<String, Object>) Json.parse(text);
            Object answer = path[1].equals("queues") && path[3].equals("reserve")
                    ? reserve(path[2], body, request.timeout())
                    : route(request.method(), path, target.length == 2 ? target[1] : "", body);
            Response response = respond(200, answer);
            if (key != null) {
                replays.put(key, new Replay(text, response));
            }
            return response;
        } catch (Refused refused) {
            return respond((int) refused.problem.get("status"), refused.problem);
        } finally {
            notifyAll();
        }
    }

    private static Response respond(int status, Object body) {
        return new Response(status, null, Json.write(body).getBytes(StandardCharsets.UTF_8));
    }

    /** Waits by the manual clock: other threads put jobs and advance it meanwhile. */
    private Object reserve(String queue, Map<String, Object> body, Duration guard) throws InterruptedException {
        long end = jobs.now + FakeJobs.number(body.get("wait"), 0);
        long deadline = System.nanoTime() + guard.toNanos();
        while (true) {
            List<Object> deliveries = jobs.lease(queue, body);
            long left = (deadline - System.nanoTime()) / 1_000_000;
            if (!deliveries.isEmpty() || jobs.now >= end || left <= 0) {
                return Map.of("deliveries", deliveries);
            }
            wait(left);
        }
    }

    private Object route(String method, String[] path, String query, Map<String, Object> body) throws Refused {
        if (path[0].equals("healthz")) {
            return Map.of("status", "ok", "version", "fake");
        } else if (path[1].equals("clock")) {
            if (path[2].equals("advance")) {
                jobs.now += FakeJobs.number(body.get("by"), 0);
                jobs.settle();
            }
            return Map.of("now_ms", jobs.now, "manual", true);
        } else if (path[1].equals("jobs") && path[2].equals("batch")) {
            return batch(path[3], body);
        } else if (path[1].equals("jobs") && !path[2].isEmpty()) {
            return jobs.on(method, jobs.find(path[2]), path[3], body);
        } else if (path[1].equals("queues") && path[3].equals("keys")) {
            return jobs.on(method, jobs.findKey(path[2], path[4]), path[5], body);
        } else if (path[1].equals("queues") && path[3].equals("jobs")) {
            if (method.equals("GET")) {
                return jobs.list(path[2], query);
            }
            body.put("queue", path[2]);
            return jobs.put(body);
        } else if (path[1].equals("queues")) {
            return jobs.onQueue(path[2], path[3]);
        }
        throw new Refused(501, "not-in-fake", "the fake does not have " + method + " /" + String.join("/", path));
    }

    private Object batch(String verb, Map<String, Object> body) {
        List<Object> results = new ArrayList<>();
        for (Object entry : (List<?>) body.get("items")) {
            @SuppressWarnings("unchecked")
            Map<String, Object> item = (Map<String, Object>) entry;
            try {
                Object ok;
                if (verb.isEmpty()) {
                    ok = jobs.put(item);
                } else {
                    boolean isCancel = verb.equals("cancel");
                    ok = jobs.on(isCancel ? "DELETE" : "POST", jobs.find((String) item.get("id")), isCancel ? "" : verb, item);
                }
                results.add(Map.of("ok", ok));
            } catch (Refused refused) {
                results.add(Map.of("error", refused.problem));
            }
        }
        return Map.of("results", results);
    }
}
