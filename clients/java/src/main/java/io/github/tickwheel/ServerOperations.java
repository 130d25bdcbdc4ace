package io.github.tickwheel;

import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.List;

/** The operations on targets and on the server as a whole. */
abstract class ServerOperations extends InsightOperations {
    ServerOperations(Transport transport, String token, Duration timeout, RetryPolicy retry) {
        super(transport, token, timeout, retry);
    }

    private Target targetCall(String method, String... path) {
        return call(Target.class, new Call(method, path));
    }

    /**
     * Returns all targets, by name.
     *
     * @return the targets
     */
    public List<Target> targets() {
        return list("targets", Target.class, new Call("GET", "v1", "targets"));
    }

    /**
     * Returns a target.
     *
     * @param name the name
     * @return the target
     */
    public Target target(String name) {
        return targetCall("GET", "v1", "targets", name);
    }

    /**
     * Adds a target, or replaces its settings as a whole.
     *
     * @param name the name
     * @param settings the settings
     * @return the target; with its signing secret, once, if it was added
     */
    public Target putTarget(String name, Target.Settings settings) {
        return call(Target.class, new Call("PUT", "v1", "targets", name).body(settings));
    }

    /**
     * Changes the settings of a target that are given.
     *
     * @param name the name
     * @param settings the settings to change
     * @return the target
     */
    public Target patchTarget(String name, Target.Settings settings) {
        return call(Target.class, new Call("PATCH", "v1", "targets", name).body(settings));
    }

    /**
     * Removes a target that no queue names.
     *
     * @param name the name
     * @return the target as it was
     */
    public Target removeTarget(String name) {
        return targetCall("DELETE", "v1", "targets", name);
    }

    /**
     * Pauses a target: its jobs stay in their queues.
     *
     * @param name the name
     * @return the target
     */
    public Target pauseTarget(String name) {
        return targetCall("POST", "v1", "targets", name, "pause");
    }

    /**
     * Resumes a target that is paused, held or stopped.
     *
     * @param name the name
     * @return the target
     */
    public Target resumeTarget(String name) {
        return targetCall("POST", "v1", "targets", name, "resume");
    }

    /**
     * Adds a signing secret to a target.
     *
     * @param name the name
     * @param keepOld how long the old secrets sign beside it; {@code null} for 24 hours
     * @return the target, with the new secret
     */
    public Target rotateTarget(String name, Duration keepOld) {
        Call call = new Call("POST", "v1", "targets", name, "rotate").body(fields("keep_old", millis(keepOld)));
        call.once = true;
        return call(Target.class, call);
    }

    /**
     * Sends one signed request to a target. It counts in the rate of the target, and changes neither
     * jobs nor its state.
     *
     * @param name the name
     * @return the request and its response
     */
    public Target.Trial testTarget(String name) {
        Call call = new Call("POST", "v1", "targets", name, "test");
        call.wait = Duration.ofMinutes(30);
        call.once = true;
        return call(Target.Trial.class, call);
    }

    /**
     * Opens the stream of the states of all targets. It begins with the state of each target.
     *
     * @return the stream, to be closed
     */
    public EventStream<Target.Change> targetEvents() {
        return new EventStream<>(this, new Call("GET", "v1", "target-events"), Target.Change.class);
    }

    /**
     * Opens the stream of events of a queue. Every change after this call returns is in the stream.
     *
     * @param queue the queue; {@code null} for all queues
     * @return the stream, to be closed
     */
    public EventStream<Event> events(String queue) {
        return events(queue, EventFilter.ALL);
    }

    /**
     * Opens the stream of the events of a queue that match.
     *
     * @param queue the queue; {@code null} for all queues
     * @param filter which events
     * @return the stream, to be closed
     */
    public EventStream<Event> events(String queue, EventFilter filter) {
        Call call = queue == null ? new Call("GET", "v1", "events") : new Call("GET", "v1", "queues", queue, "events");
        return new EventStream<>(this, call.query(filter.fields()), Event.class);
    }

    /**
     * Returns counters since the start of the server, and current numbers.
     *
     * @return the statistics
     */
    public Stats stats() {
        return stats(null);
    }

    /**
     * Returns the statistics with what happened lately.
     *
     * @param since the length of the window up to now, 10 s to 1 h; {@code null} for none
     * @return the statistics, with {@link Stats#recent} if a window was given
     */
    public Stats stats(Duration since) {
        String window = since == null ? null : Wire.millis(since) + "ms";
        return call(Stats.class, new Call("GET", "v1", "stats").query(fields("since", window)));
    }

    /**
     * Returns the metrics of the server in the text format of Prometheus.
     *
     * @return the text
     */
    public String metrics() {
        return new String(perform(new Call("GET", "metrics")), StandardCharsets.UTF_8);
    }

    /**
     * Returns the version of the server, if it is alive.
     *
     * @return the health
     */
    public Health health() {
        return call(Health.class, new Call("GET", "healthz"));
    }

    /**
     * Returns the health of the server if it is ready. Does not retry.
     *
     * @return the health
     * @throws ProblemException if the server is starting or stopping
     */
    public Health ready() {
        Call call = new Call("GET", "readyz");
        call.single = true;
        return call(Health.class, call);
    }

    /**
     * Returns the time of the server.
     *
     * @return the clock
     */
    public Clock clock() {
        return call(Clock.class, new Call("GET", "v1", "clock"));
    }

    /**
     * Advances the clock of a server that was started with {@code --clock manual}. Returns when
     * everything that is due at the new time is done.
     *
     * @param by how far
     * @return the clock
     */
    public Clock advance(Duration by) {
        Call call = new Call("POST", "v1", "clock", "advance").body(fields("by", millis(by)));
        call.once = true;
        return call(Clock.class, call);
    }
}
