package io.github.tickwheel;

import java.io.IOException;
import java.net.URLEncoder;
import java.nio.charset.StandardCharsets;
import java.security.SecureRandom;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** Sends the calls of the API, repeats them while that is safe and useful, and reads the answers. */
abstract class Caller {
    private static final SecureRandom RANDOM = new SecureRandom();

    final Transport transport;
    final Duration timeout;
    final RetryPolicy retry;
    private final String token;

    Caller(Transport transport, String token, Duration timeout, RetryPolicy retry) {
        this.transport = transport;
        this.token = token;
        this.timeout = timeout;
        this.retry = retry;
    }

    /** One call of the API. */
    static final class Call {
        final String method;
        final String path;
        Map<String, Object> query = Map.of();
        Object body;
        String idempotencyKey;
        Duration wait = Duration.ZERO;
        /** Forbids to repeat the call after it may have been applied. */
        boolean once;
        /** Forbids every repetition: the caller has a loop of its own. */
        boolean single;

        Call(String method, String... path) {
            this.method = method;
            StringBuilder joined = new StringBuilder();
            for (String segment : path) {
                joined.append('/').append(encode(segment));
            }
            this.path = joined.toString();
        }

        Call body(Object body) {
            this.body = body;
            return this;
        }

        Call query(Map<String, Object> query) {
            this.query = query;
            return this;
        }

        /** The path with the parameters that have a value. */
        String target() {
            StringBuilder target = new StringBuilder(path);
            char separator = '?';
            for (Map.Entry<String, Object> parameter : query.entrySet()) {
                if (parameter.getValue() != null) {
                    target.append(separator).append(parameter.getKey()).append('=');
                    target.append(encode(String.valueOf(Wire.write(parameter.getValue()))));
                    separator = '&';
                }
            }
            return target.toString();
        }
    }

    private static String encode(String text) {
        return URLEncoder.encode(text, StandardCharsets.UTF_8).replace("+", "%20");
    }

    /** Returns the fields that are not null. */
    static Map<String, Object> fields(Object... namesAndValues) {
        Map<String, Object> fields = new LinkedHashMap<>();
        for (int i = 0; i < namesAndValues.length; i += 2) {
            if (namesAndValues[i + 1] != null) {
                fields.put((String) namesAndValues[i], namesAndValues[i + 1]);
            }
        }
        return fields;
    }

    static Long millis(Duration duration) {
        return duration == null ? null : (Long) Wire.millis(duration);
    }

    static Long millis(Instant time) {
        return time == null ? null : (Long) time.toEpochMilli();
    }

    static String newIdempotencyKey() {
        byte[] bits = new byte[16];
        RANDOM.nextBytes(bits);
        return HexFormat.of().formatHex(bits);
    }

    /** Performs the call and returns the answer as a record of the API. */
    <T> T call(Class<T> type, Call call) {
        return read(type, perform(call), call);
    }

    private static <T> T read(Class<T> type, byte[] body, Call call) {
        try {
            return Wire.read(Json.parse(new String(body, StandardCharsets.UTF_8)), type);
        } catch (IllegalArgumentException | ClassCastException | ArithmeticException error) {
            throw new TickwheelException(
                    "cannot read the answer to " + call.method + " " + call.path + ": " + error.getMessage(), error);
        }
    }

    /** Performs the call and returns one member of the answer. */
    <T> T member(String name, Class<T> type, Call call) {
        return Wire.read(((Map<?, ?>) call(Object.class, call)).get(name), type);
    }

    /** Performs the call and returns a list that is one member of the answer. */
    <T> List<T> list(String name, Class<T> type, Call call) {
        List<T> list = new ArrayList<>();
        if (((Map<?, ?>) call(Object.class, call)).get(name) instanceof List<?> items) {
            items.forEach(item -> list.add(Wire.read(item, type)));
        }
        return list;
    }

    /** Performs a batch and returns a result for each item. */
    <T> List<Result<T>> batch(String verb, List<?> items, String idempotencyKey, Class<T> type) {
        Call call = verb.isEmpty() ? new Call("POST", "v1", "jobs", "batch") : new Call("POST", "v1", "jobs", "batch", verb);
        call.idempotencyKey = idempotencyKey;
        List<Result<T>> results = new ArrayList<>();
        for (Object entry : list("results", Object.class, call.body(fields("items", items)))) {
            Map<?, ?> result = (Map<?, ?>) entry;
            Problem error = Wire.read(result.get("error"), Problem.class);
            results.add(new Result<>(error == null ? Wire.read(result.get("ok"), type) : null, error));
        }
        if (results.size() != items.size()) {
            throw new TickwheelException("the server answered " + results.size() + " of " + items.size() + " items", null);
        }
        return results;
    }

    /** Performs a batch whose answers have one member that matters. */
    <T> List<Result<T>> batchOf(String verb, List<?> items, String member, Class<T> type) {
        return batch(verb, items, null, Object.class).stream()
                .map(result -> result.map(ok -> Wire.read(((Map<?, ?>) ok).get(member), type)))
                .toList();
    }

    /** Performs the call, with repetitions, and returns the body of the answer. */
    byte[] perform(Call call) {
        try {
            byte[] body = call.body == null ? null : Json.write(call.body).getBytes(StandardCharsets.UTF_8);
            for (int attempt = 0; ; attempt++) {
                try {
                    return attempt(call, body);
                } catch (TickwheelException error) {
                    if (call.single || attempt >= retry.max() || !isRepeatable(error, call.once)) {
                        throw error;
                    }
                    retry.sleep(attempt, error);
                }
            }
        } catch (InterruptedException error) {
            throw interrupted(error);
        }
    }

    static TickwheelException interrupted(InterruptedException error) {
        Thread.currentThread().interrupt();
        return new TickwheelException("the thread was interrupted", error);
    }

    private byte[] attempt(Call call, byte[] body) throws InterruptedException {
        Transport.Response response;
        try {
            response = transport.send(request(call, body));
        } catch (IOException error) {
            throw new ConnectionException("no answer to " + call.method + " " + call.path + ": " + error.getMessage(), error);
        }
        if (response.status() >= 300) {
            throw problem(response);
        }
        return response.body();
    }

    Transport.Request request(Call call, byte[] body) {
        Map<String, String> headers = new LinkedHashMap<>();
        if (body != null) {
            headers.put("content-type", "application/json");
        }
        if (token != null) {
            headers.put("authorization", "Bearer " + token);
        }
        if (call.idempotencyKey != null) {
            headers.put("idempotency-key", call.idempotencyKey);
        }
        return new Transport.Request(call.method, call.target(), headers, body, timeout.plus(call.wait));
    }

    /**
     * Returns the problem of a response. A response without a problem document, for example of a
     * proxy, becomes a problem with the status alone.
     */
    static ProblemException problem(Transport.Response response) {
        Problem problem = null;
        try {
            problem = Wire.read(Json.parse(new String(response.body(), StandardCharsets.UTF_8)), Problem.class);
        } catch (IllegalArgumentException | ClassCastException | ArithmeticException error) {
            // Not a problem document.
        }
        if (problem == null || problem.status() == 0) {
            String detail = "the server answered with status " + response.status();
            problem = new Problem(response.status(), "", null, detail, null, null, null);
        }
        String after = response.retryAfter();
        boolean isSeconds = after != null && after.matches("[0-9]{1,9}");
        return new ProblemException(problem, Duration.ofSeconds(isSeconds ? Long.parseLong(after) : 0));
    }

    /** Returns whether the call may succeed when it is sent again, without being applied twice. */
    static boolean isRepeatable(TickwheelException error, boolean once) {
        if (error instanceof ProblemException problem) {
            return problem.isRefusedForNow() || problem.is(ProblemException.OUTCOME_UNKNOWN) && !once;
        }
        return error instanceof ConnectionException && !once;
    }
}
