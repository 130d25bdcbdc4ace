package io.github.tickwheel.testing;

import io.github.tickwheel.testing.Fake.Refused;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;

/** The jobs of a {@link Fake}, which guards them. */
final class FakeJobs {
    /** The defaults of a queue of the real server. */
    private static final long DEFAULT_LEASE_MS = 30_000;
    private static final long DEFAULT_ATTEMPTS = 10;

    long now = 1_767_323_045_678L;
    private long made;
    private final Map<String, Entry> jobs = new LinkedHashMap<>();
    private final Set<String> queues = new LinkedHashSet<>();
    private final Set<String> paused = new LinkedHashSet<>();

    /** A job: its members on the wire, and what the server keeps to itself. */
    static final class Entry {
        final Map<String, Object> members = new LinkedHashMap<>();
        long order;
        String token;
        long until;

        String state() {
            return (String) members.get("state");
        }

        long due() {
            return (long) members.get("due_ms");
        }

        long attempts() {
            return (long) members.get("attempts");
        }

        Map<String, Object> show() {
            Map<String, Object> shown = new LinkedHashMap<>(members);
            if (token != null) {
                Map<String, Object> lease = new LinkedHashMap<>(Map.of("until_ms", until));
                if (members.get("worker") != null) {
                    lease.put("worker", members.get("worker"));
                }
                shown.put("lease", lease);
            }
            shown.remove("worker");
            return shown;
        }
    }

    static long number(Object value, long absent) {
        return value instanceof Number number ? number.longValue() : absent;
    }

    Entry find(String id) {
        return jobs.get(id);
    }

    /** Returns the live job with the key. */
    Entry findKey(String queue, String key) {
        for (Entry job : jobs.values()) {
            boolean isNamed = queue.equals(job.members.get("queue")) && key.equals(job.members.get("key"));
            if (isNamed && !job.state().equals("dead")) {
                return job;
            }
        }
        return null;
    }

    /** Returns the jobs of the queue in the order of delivery. */
    List<Entry> sorted(String queue) {
        return jobs.values().stream()
                .filter(job -> queue.equals(job.members.get("queue")))
                .sorted(Comparator.comparingLong(Entry::due)
                        .thenComparingLong(job -> -number(job.members.get("priority"), 0))
                        .thenComparingLong(job -> job.order))
                .toList();
    }

    Object put(Map<String, Object> call) throws Refused {
        String queue = (String) call.get("queue");
        if (queue == null) {
            throw new Refused(422, "missing-field", "queue is missing");
        } else if (!call.containsKey("payload") && call.get("text") == null && call.get("base64") == null) {
            throw new Refused(422, "missing-field", "one of payload, text and base64 is required");
        } else if (number(call.get("delay"), 0) < 0) {
            throw new Refused(422, "invalid-field", "delay must not be negative, got " + call.get("delay") + " ms");
        } else if (call.get("id") != null && jobs.containsKey(call.get("id"))) {
            throw new Refused(409, "id-exists", "a job has the id " + call.get("id"));
        }
        Map<String, Object> result = new LinkedHashMap<>(Map.of("queue", queue, "outcome", "created"));
        Entry old = call.get("key") == null ? null : findKey(queue, (String) call.get("key"));
        if (old != null && "keep".equals(call.get("on_conflict"))) {
            result.putAll(Map.of("outcome", "kept", "id", old.members.get("id"), "due_ms", old.due()));
            return result;
        } else if (old != null && "reject".equals(call.get("on_conflict"))) {
            throw new Refused(409, "key-exists", "a live job has the key " + call.get("key"), (String) old.members.get("id"));
        } else if (old != null) {
            jobs.remove(old.members.get("id"));
            result.putAll(Map.of("outcome", "replaced", "replaced", old.members.get("id")));
        }
        Entry job = create(queue, call);
        result.putAll(Map.of("id", job.members.get("id"), "due_ms", job.due()));
        return result;
    }

    private Entry create(String queue, Map<String, Object> call) {
        Entry job = new Entry();
        job.order = ++made;
        Map<String, Object> members = job.members;
        String made = String.format("%08x-0000-7000-8000-%012x", now >> 16 & 0xffffffffL, job.order);
        members.put("id", call.getOrDefault("id", made));
        members.put("queue", queue);
        members.put("state", "scheduled");
        members.put("priority", number(call.get("priority"), 0));
        members.put("attempts", 0L);
        members.put("created_ms", now);
        members.put("due_ms", number(call.get("due"), now + number(call.get("delay"), 0)));
        for (String name : List.of("key", "group", "payload", "text", "base64", "max_attempts", "retry")) {
            if (call.containsKey(name)) {
                members.put(name, call.get(name));
            }
        }
        Map<String, Object> headers = new LinkedHashMap<>();
        String textType = call.get("text") == null ? "application/octet-stream" : "text/plain; charset=utf-8";
        headers.put("content-type", call.containsKey("payload") ? "application/json" : textType);
        if (call.get("headers") instanceof Map<?, ?> given) {
            given.forEach((name, value) -> headers.put((String) name, value));
        }
        members.put("headers", headers);
        queues.add(queue);
        jobs.put((String) members.get("id"), job);
        settle();
        return job;
    }

    /** Applies the current time: leases expire, and jobs become ready. */
    void settle() {
        for (Entry job : jobs.values()) {
            if (job.token != null && job.until <= now) {
                endAttempt(job, job.due());
            }
            if (job.state().equals("scheduled") && job.due() <= now) {
                job.members.put("state", "ready");
            }
        }
    }

    List<Object> lease(String queue, Map<String, Object> call) {
        List<Object> deliveries = new ArrayList<>();
        long limit = number(call.get("limit"), 1);
        for (Entry job : sorted(queue)) {
            if (job.state().equals("ready") && deliveries.size() < limit && !paused.contains(queue)) {
                job.token = String.format("%016x", ++made);
                job.until = now + number(call.get("lease"), DEFAULT_LEASE_MS);
                job.members.put("state", "leased");
                job.members.put("attempts", job.attempts() + 1);
                job.members.put("worker", call.get("worker"));
                deliveries.add(Map.of("job", job.show(), "token", job.token, "until_ms", job.until));
            }
        }
        return deliveries;
    }

    /** Makes the job ready at the time, or dead if no attempt is left. */
    private void endAttempt(Entry job, long due) {
        if (job.attempts() >= number(job.members.get("max_attempts"), DEFAULT_ATTEMPTS)) {
            bury(job);
            return;
        }
        job.token = null;
        job.members.put("due_ms", due);
        job.members.put("state", due <= now ? "ready" : "scheduled");
    }

    private void bury(Entry job) {
        job.token = null;
        job.members.put("state", "dead");
        job.members.put("finished_ms", now);
    }

    /** Returns the delay before the next attempt, without jitter. */
    private static long backoff(Entry job) {
        Map<?, ?> retry = job.members.get("retry") instanceof Map<?, ?> given ? given : Map.of();
        if (retry.get("fixed") != null) {
            return number(retry.get("fixed"), 0);
        } else if (retry.get("list") instanceof List<?> list) {
            return number(list.get((int) Math.min(job.attempts(), list.size()) - 1), 0);
        }
        Map<?, ?> doubling = retry.get("exponential") instanceof Map<?, ?> given ? given : Map.of();
        long first = number(doubling.get("first"), 1_000);
        return Math.min(first << Math.min(job.attempts() - 1, 30), number(doubling.get("max"), 3_600_000));
    }

    /** Performs a request about one job. */
    Object on(String method, Entry job, String verb, Map<String, Object> call) throws Refused {
        if (job == null) {
            throw new Refused(404, "not-found", "there is no such job");
        }
        switch (verb) {
            case "ack", "fail", "extend", "release" -> {
                if (job.token == null || !job.token.equals(call.get("token"))) {
                    throw new Refused(409, "stale-lease", "the lease has expired");
                }
                return onLease(job, verb, call);
            }
            case "kick" -> {
                expectState(job, job.state().equals("dead"));
                job.members.putAll(Map.of("state", "ready", "attempts", 0L, "due_ms", now));
                job.members.remove("finished_ms");
                return Map.of("state", "ready");
            }
            case "reschedule" -> {
                expectState(job, job.state().equals("scheduled") || job.state().equals("ready"));
                job.members.put("due_ms", number(call.get("due"), now + number(call.get("delay"), 0)));
                job.members.put("state", "scheduled");
                settle();
                return Map.of("due_ms", job.due());
            }
            default -> {
                if (!method.equals("DELETE")) {
                    return job.show();
                }
                expectState(job, !job.state().equals("dead"));
                jobs.remove(job.members.get("id"));
                return Map.of("was", job.state());
            }
        }
    }

    private static void expectState(Entry job, boolean isAllowed) throws Refused {
        if (!isAllowed) {
            throw new Refused(409, "wrong-state", "the job is " + job.state());
        }
    }

    /** Performs a request of the worker that has the job. */
    private Object onLease(Entry job, String verb, Map<String, Object> call) {
        switch (verb) {
            case "ack" -> {
                jobs.remove(job.members.get("id"));
                return Map.of("state", "done");
            }
            case "extend" -> {
                job.until = now + number(call.get("lease"), DEFAULT_LEASE_MS);
                return Map.of("until_ms", job.until);
            }
            case "release" -> {
                job.members.put("attempts", job.attempts() - 1);
                long due = call.get("delay") == null ? job.due() : now + number(call.get("delay"), 0);
                endAttempt(job, due);
                return Map.of("released", true);
            }
            default -> {
                job.members.put("last_error", call.getOrDefault("error", ""));
                if (Boolean.TRUE.equals(call.get("dead"))) {
                    bury(job);
                } else {
                    endAttempt(job, now + number(call.get("delay"), backoff(job)));
                }
                return Map.of("state", job.state());
            }
        }
    }

    /** Returns all matching jobs on one page. */
    Object list(String queue, String query) throws Refused {
        for (String parameter : query.split("&")) {
            String name = parameter.split("=", 2)[0];
            if (!Set.of("", "state", "limit", "page").contains(name)) {
                throw new Refused(501, "not-in-fake", "the fake cannot list jobs by " + name);
            }
        }
        List<Object> found = new ArrayList<>();
        for (Entry job : sorted(queue)) {
            boolean isExcluded = query.contains("state=") && !("&" + query + "&").contains("&state=" + job.state() + "&");
            if (!isExcluded) {
                found.add(job.show());
            }
        }
        Map<String, Object> page = new LinkedHashMap<>();
        page.put("jobs", found);
        page.put("next", null);
        return page;
    }

    Object onQueue(String name, String verb) throws Refused {
        if (name.isEmpty()) {
            return Map.of("queues", queues.stream().sorted().map(this::queue).toList());
        } else if (!queues.contains(name)) {
            throw new Refused(404, "not-found", "there is no queue " + name);
        }
        switch (verb) {
            case "" -> { }
            case "pause" -> paused.add(name);
            case "resume" -> paused.remove(name);
            default -> throw new Refused(501, "not-in-fake", "the fake does not have " + verb + " of a queue");
        }
        return queue(name);
    }

    private Map<String, Object> queue(String name) {
        Map<String, Long> counts = new LinkedHashMap<>();
        sorted(name).forEach(job -> counts.merge(job.state(), 1L, Long::sum));
        return Map.of("name", name, "paused", paused.contains(name), "jobs", counts, "more_ready", false, "settings", Map.of());
    }
}
