package io.github.tickwheel;

import io.github.tickwheel.testing.Server;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.time.Instant;
import java.time.InstantSource;
import java.util.ArrayList;
import java.util.Base64;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.atomic.AtomicInteger;

/** The operations of scenarios, by the methods of the client. Answers are named as on the wire. */
final class Operations implements AutoCloseable {
    private final Client client;
    private final Server server;
    private EventStream<?> stream;

    Operations(Client client, Server server) {
        this.client = client;
        this.server = server;
    }

    Server server() {
        return server;
    }

    @Override
    public void close() {
        if (stream != null) {
            stream.close();
        }
    }

    private static String text(Map<String, Object> with, String name) {
        return (String) with.get(name);
    }

    private static Integer integer(Map<String, Object> with, String name) {
        return with.get(name) == null ? null : (Integer) ((Number) with.get(name)).intValue();
    }

    private static Duration duration(Map<String, Object> with, String name) {
        return with.get(name) == null ? null : Wire.duration(with.get(name));
    }

    private static Instant instant(Map<String, Object> with, String name) {
        return Wire.read(with.get(name), Instant.class);
    }

    private static boolean flag(Map<String, Object> with, String name) {
        return Boolean.TRUE.equals(with.get(name));
    }

    private static List<Map<String, Object>> items(Map<String, Object> with) {
        List<Map<String, Object>> items = new ArrayList<>();
        for (Object item : (List<?>) with.get("items")) {
            items.add(object(item));
        }
        return items;
    }

    @SuppressWarnings("unchecked")
    private static Map<String, Object> object(Object value) {
        return (Map<String, Object>) value;
    }

    private static NewJob newJob(Map<String, Object> with) {
        String queue = text(with, "queue");
        NewJob job = with.containsKey("text") ? NewJob.ofText(queue, text(with, "text"))
                : with.containsKey("base64") ? NewJob.ofBytes(queue, Base64.getDecoder().decode(text(with, "base64")))
                : NewJob.of(queue, with.get("payload"));
        for (Map.Entry<String, Object> entry : with.entrySet()) {
            Object value = entry.getValue();
            job = switch (entry.getKey()) {
                case "queue", "payload", "text", "base64", "traceparent", "cron", "every", "timezone", "misfire",
                        "misfire_limit", "grace", "name" -> job;
                case "delay" -> job.delay(Wire.duration(value));
                case "due" -> job.due(instant(with, "due"));
                case "key" -> job.key((String) value);
                case "on_conflict" -> job.onConflict(Wire.read(value, Conflict.class));
                case "priority" -> job.priority(integer(with, "priority"));
                case "headers" -> {
                    NewJob changed = job;
                    for (Map.Entry<String, Object> header : object(value).entrySet()) {
                        changed = changed.header(header.getKey(), (String) header.getValue());
                    }
                    yield changed;
                }
                case "max_attempts" -> job.maxAttempts(integer(with, "max_attempts"));
                case "retry" -> job.retry(Wire.read(value, Retry.class));
                case "group" -> job.group((String) value);
                case "id" -> job.id((String) value);
                case "max_total_delay" -> job.maxTotalDelay(Wire.duration(value));
                case "on_success" -> job.onSuccess(Wire.read(value, FollowUp.class));
                case "on_death" -> job.onDeath(Wire.read(value, FollowUp.class));
                case "idempotency_key" -> job.idempotencyKey((String) value);
                default -> throw new AssertionError("unknown field " + entry.getKey());
            };
        }
        return job;
    }

    private static NewSchedule newSchedule(Map<String, Object> with) {
        NewSchedule schedule = with.get("cron") != null
                ? NewSchedule.cron(text(with, "cron"), newJob(with))
                : NewSchedule.every(duration(with, "every"), newJob(with));
        if (with.get("timezone") != null) {
            schedule = schedule.timezone(text(with, "timezone"));
        }
        if (with.get("misfire") != null) {
            schedule = schedule.misfire(Wire.read(with.get("misfire"), Misfire.class));
        }
        return schedule;
    }

    private static ListOptions options(Map<String, Object> with) {
        return new ListOptions(
                Wire.read(with.get("state"), State.class), instant(with, "due_from"), instant(with, "due_to"),
                text(with, "key"), text(with, "key_prefix"), text(with, "error"), text(with, "error_group"),
                integer(with, "limit"), text(with, "page"));
    }

    private static EventFilter eventFilter(Map<String, Object> with) {
        return new EventFilter(
                with.get("event") == null ? null : List.of(text(with, "event").split(",")),
                Wire.read(with.get("state"), State.class), text(with, "key"), text(with, "key_prefix"),
                text(with, "error"));
    }

    private static BulkChange change(Map<String, Object> with) {
        Map<String, Object> filter = with.get("filter") == null ? Map.of() : object(with.get("filter"));
        return new BulkChange(
                Wire.read(with.get("action"), BulkChange.Action.class),
                new JobFilter(
                        Wire.read(filter.get("state"), State.class), text(filter, "error"), text(filter, "error_group"),
                        text(filter, "key"), text(filter, "key_prefix"), instant(filter, "due_from"),
                        instant(filter, "due_to")),
                duration(with, "delay"), instant(with, "due"), flag(with, "dry_run"), integer(with, "limit"),
                text(with, "cursor"));
    }

    private static List<LeaseItem> leases(Map<String, Object> with) {
        return items(with).stream().map(item -> new LeaseItem(
                text(item, "id"), text(item, "token"), item.get("result"), text(item, "error"), duration(item, "delay"),
                flag(item, "dead"), duration(item, "lease"))).toList();
    }

    private static List<String> ids(Map<String, Object> with) {
        return items(with).stream().map(item -> text(item, "id")).toList();
    }

    /** Wraps the values of results in objects with the name of the API for them. */
    private static <T> Object named(List<Result<T>> results, String name) {
        List<Object> list = new ArrayList<>();
        for (Result<T> result : results) {
            list.add(result.isOk() ? Map.of("ok", Map.of(name, wire(result.ok()))) : Map.of("error", result.error()));
        }
        return Map.of("results", list);
    }

    private static Object wire(Object value) {
        return value instanceof Instant time ? time.toEpochMilli() : value;
    }

    private static Object results(List<Result<PutResult>> results) {
        List<Object> list = new ArrayList<>();
        results.forEach(result -> list.add(result.isOk() ? Map.of("ok", result.ok()) : Map.of("error", result.error())));
        return Map.of("results", list);
    }

    Object perform(String operation, Map<String, Object> with) throws Exception {
        for (Group group : List.<Group>of(this::onJobs, this::onLeases, this::onQueues, this::onSchedules, this::onTargets,
                this::onInsight, this::onServer)) {
            Object answer = group.perform(operation, with);
            if (answer != null) {
                return answer;
            }
        }
        throw new AssertionError("unknown operation " + operation);
    }

    private interface Group {
        Object perform(String operation, Map<String, Object> with) throws Exception;
    }

    private Object onJobs(String operation, Map<String, Object> with) throws Exception {
        String id = text(with, "id");
        String queue = text(with, "queue");
        String key = text(with, "key");
        return switch (operation) {
            case "put" -> Traceparent.call(text(with, "traceparent"), () -> client.put(newJob(with)));
            case "put_many" -> results(client.putMany(
                    items(with).stream().map(Operations::newJob).toList(), text(with, "idempotency_key")));
            case "put_together" -> putTogether(with);
            case "import_many" -> named(client.importMany(items(with).stream().map(Operations::imported).toList()), "id");
            case "get" -> id == null ? client.getByKey(queue, key) : client.get(id);
            case "find_ids" -> Map.of("ids", client.findIds(text(with, "short")));
            case "cancel" -> Map.of("was", id == null ? client.cancelByKey(queue, key) : client.cancel(id));
            case "cancel_many" -> named(client.cancelMany(ids(with)), "was");
            case "reschedule" -> Map.of("due_ms", reschedule(with).toEpochMilli());
            case "reschedule_many" -> named(client.rescheduleMany(items(with).stream()
                    .map(item -> new RescheduleItem(text(item, "id"), duration(item, "delay"), instant(item, "due")))
                    .toList()), "due_ms");
            case "list" -> client.list(queue, options(with));
            case "list_all" -> {
                List<Job> jobs = new ArrayList<>();
                client.listAll(queue, options(with)).forEach(jobs::add);
                yield Map.of("jobs", jobs);
            }
            default -> null;
        };
    }

    private static ImportedJob imported(Map<String, Object> item) {
        Map<String, Object> finished = item.get("finished") == null ? Map.of() : object(item.get("finished"));
        return new ImportedJob(
                newJob(object(item.get("put"))), instant(item, "created"),
                item.get("attempts") == null ? 0 : integer(item, "attempts"), text(item, "last_error"),
                Wire.read(finished.get("state"), State.class), instant(finished, "at"));
    }

    private Instant reschedule(Map<String, Object> with) {
        String id = text(with, "id");
        String queue = text(with, "queue");
        String key = text(with, "key");
        if (with.get("due") != null) {
            Instant due = instant(with, "due");
            return id == null ? client.rescheduleByKey(queue, key, due) : client.reschedule(id, due);
        }
        Duration delay = duration(with, "delay");
        return id == null ? client.rescheduleByKey(queue, key, delay) : client.reschedule(id, delay);
    }

    private Object putTogether(Map<String, Object> with) throws Exception {
        List<CompletableFuture<PutResult>> puts = new ArrayList<>();
        for (Map<String, Object> item : items(with)) {
            puts.add(client.putAsync(newJob(item)));
        }
        List<Result<PutResult>> results = new ArrayList<>();
        for (CompletableFuture<PutResult> put : puts) {
            try {
                results.add(new Result<>(put.get(), null));
            } catch (ExecutionException error) {
                results.add(new Result<>(null, ((ProblemException) error.getCause()).problem()));
            }
        }
        return results(results);
    }

    private Object onLeases(String operation, Map<String, Object> with) {
        String id = text(with, "id");
        String token = text(with, "token");
        switch (operation) {
            case "reserve":
                return Map.of("deliveries", client.reserve(text(with, "queue"), new ReserveOptions(
                        integer(with, "limit"), duration(with, "lease"), duration(with, "wait"), text(with, "worker"))));
            case "ack":
                client.ack(id, token, with.get("result"));
                return Map.of("state", "done");
            case "fail":
                return Map.of("state", client.fail(
                        id, token, new Failure(text(with, "error"), duration(with, "delay"), flag(with, "dead"))));
            case "extend":
                return Map.of("until_ms", client.extend(id, token, duration(with, "lease")).toEpochMilli());
            case "release":
                client.release(id, token, duration(with, "delay"));
                return Map.of("released", true);
            case "kick":
                return Map.of("state", client.kick(id));
            case "ack_many":
                return named(client.ackMany(leases(with)), "state");
            case "fail_many":
                return named(client.failMany(leases(with)), "state");
            case "extend_many":
                return named(client.extendMany(leases(with)), "until_ms");
            case "release_many":
                return named(client.releaseMany(leases(with)), "released");
            case "kick_many":
                return named(client.kickMany(ids(with)), "state");
            default:
                return null;
        }
    }

    private Object onQueues(String operation, Map<String, Object> with) {
        String queue = text(with, "queue");
        QueueSettings settings = Wire.read(with.get("settings"), QueueSettings.class);
        return switch (operation) {
            case "queues" -> Map.of("queues", client.queues());
            case "queue" -> client.queue(queue);
            case "put_settings" -> client.putSettings(queue, settings);
            case "patch_settings" -> client.patchSettings(queue, settings);
            case "pause_queue" -> client.pauseQueue(queue);
            case "resume_queue" -> client.resumeQueue(queue);
            case "kick_queue" -> Map.of("count", client.kickQueue(queue, with.get("limit") == null ? 0 : integer(with, "limit")));
            case "purge_queue" -> Map.of("count", client.removeFinished(
                    queue, Wire.read(with.get("state"), State.class), duration(with, "older_than")));
            case "drain_queue" -> Map.of("count", client.cancelWaiting(queue));
            case "remove_queue" -> Map.of("count", client.removeQueue(queue, flag(with, "force")));
            case "groups" -> client.groups(queue, text(with, "prefix"), integer(with, "limit"), text(with, "page"));
            case "patch_group" -> patchGroup(queue, text(with, "group"), with);
            default -> null;
        };
    }

    private Object patchGroup(String queue, String group, Map<String, Object> with) {
        if (with.containsKey("pacing")) {
            return client.paceGroup(queue, group, Wire.read(with.get("pacing"), Pacing.class));
        }
        return flag(with, "paused") ? client.pauseGroup(queue, group) : client.resumeGroup(queue, group);
    }

    private Object onSchedules(String operation, Map<String, Object> with) {
        String name = text(with, "name");
        return switch (operation) {
            case "put_schedule" -> client.putSchedule(name, newSchedule(with));
            case "schedules" -> Map.of("schedules", client.schedules());
            case "schedule" -> client.schedule(name);
            case "pause_schedule" -> client.pauseSchedule(name);
            case "resume_schedule" -> client.resumeSchedule(name);
            case "remove_schedule" -> client.removeSchedule(name);
            case "next_runs" -> Map.of("next", client.nextRuns(name, integer(with, "n")).stream()
                    .map(run -> Map.of("due_ms", run.toEpochMilli())).toList());
            default -> null;
        };
    }

    private Object onTargets(String operation, Map<String, Object> with) {
        String name = text(with, "name");
        Target.Settings settings = Wire.read(with.get("settings"), Target.Settings.class);
        return switch (operation) {
            case "targets" -> Map.of("targets", client.targets());
            case "target" -> client.target(name);
            case "put_target" -> client.putTarget(name, settings);
            case "patch_target" -> client.patchTarget(name, settings);
            case "remove_target" -> client.removeTarget(name);
            case "pause_target" -> client.pauseTarget(name);
            case "resume_target" -> client.resumeTarget(name);
            case "rotate_target" -> client.rotateTarget(name, duration(with, "keep_old"));
            case "test_target" -> client.testTarget(name);
            default -> null;
        };
    }

    private Object onInsight(String operation, Map<String, Object> with) {
        String queue = text(with, "queue");
        return switch (operation) {
            case "errors" -> client.errors(queue, integer(with, "limit"));
            case "change_matching" -> client.changeMatching(queue, change(with));
            case "change_all" -> client.changeAllMatching(queue, change(with));
            case "overview" -> client.overview();
            case "history" -> client.history(
                    "24h".equals(with.get("window")) ? History.Window.HOURS_24 : History.Window.MINUTES_15, queue);
            case "wheel" -> client.wheel();
            default -> null;
        };
    }

    private Object onServer(String operation, Map<String, Object> with) throws Exception {
        switch (operation) {
            case "stats":
                return client.stats(duration(with, "since"));
            case "health":
                return client.health();
            case "ready":
                return client.ready();
            case "clock":
                return client.clock();
            case "advance":
                return client.advance(duration(with, "by"));
            case "work":
                return work(with);
            case "follow":
                stream = flag(with, "targets") ? client.targetEvents()
                        : client.events(text(with, "queue"), eventFilter(with));
                return Map.of();
            case "events":
                List<Object> events = new ArrayList<>();
                while (events.size() < integer(with, "count")) {
                    Object next = stream.next();
                    if (!(next instanceof Event event && event.event().equals("reset"))) {
                        events.add(next);
                    }
                }
                return Map.of("events", events);
            case "restart":
                server.restart(flag(with, "kill"));
                return Map.of();
            case "verify_webhook":
                return verifyWebhook(with);
            default:
                return null;
        }
    }

    private static Object verifyWebhook(Map<String, Object> with) {
        Instant now = Instant.ofEpochSecond(((Number) with.get("now")).longValue());
        WebhookVerifier verifier = new WebhookVerifier(Duration.ofSeconds(300), InstantSource.fixed(now), text(with, "secret"));
        Map<String, String> headers = new LinkedHashMap<>();
        object(with.get("headers")).forEach((name, value) -> headers.put(name, (String) value));
        try {
            verifier.verify(headers, text(with, "body").getBytes(StandardCharsets.UTF_8));
            return Map.of("valid", true);
        } catch (WebhookVerifier.InvalidSignatureException error) {
            return Map.of("valid", false);
        }
    }

    /** Runs a worker until its handler was called as often as the step says. */
    private Object work(Map<String, Object> with) {
        Worker.Builder builder = Worker.builder(client);
        if (with.get("name") != null) {
            builder.name(text(with, "name"));
        }
        if (with.get("concurrency") != null) {
            builder.concurrency(integer(with, "concurrency"));
        }
        if (with.get("prefetch") != null) {
            builder.prefetch(integer(with, "prefetch"));
        }
        if (with.get("lease") != null) {
            builder.lease(duration(with, "lease"));
        }
        Worker worker = builder.build();
        AtomicInteger handled = new AtomicInteger();
        worker.handle(text(with, "queue"), job -> {
            try {
                return handle(object(job.payload()));
            } finally {
                if (handled.incrementAndGet() == integer(with, "jobs")) {
                    // The shutdown waits for this handler and its report.
                    worker.stop();
                }
            }
        });
        TestMain.check(worker.run(), "the shutdown took too long");
        return Map.of("handled", handled.get());
    }

    private Object handle(Map<String, Object> order) throws Exception {
        switch (text(order, "do")) {
            case "return":
                return order.get("result");
            case "throw":
                throw new IllegalStateException(text(order, "error"));
            case "retry":
                throw JobException.retry(text(order, "error"), duration(order, "delay"));
            case "dead":
                throw JobException.dead(text(order, "error"));
            case "release":
                throw JobException.release(duration(order, "delay"));
            case "put":
                client.put(NewJob.ofText(text(order, "queue"), "child"));
                return null;
            default:
                throw JobException.dead("unknown order " + order);
        }
    }
}
