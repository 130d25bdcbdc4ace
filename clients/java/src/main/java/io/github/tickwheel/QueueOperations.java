package io.github.tickwheel;

import java.time.Duration;
import java.time.Instant;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** The operations on queues, groups and schedules. */
abstract class QueueOperations extends LeaseOperations {
    QueueOperations(Transport transport, String token, Duration timeout, RetryPolicy retry) {
        super(transport, token, timeout, retry);
    }

    private Queue queueCall(String method, String... path) {
        return call(Queue.class, new Call(method, path));
    }

    /**
     * Returns all queues that the token may see.
     *
     * @return the queues
     */
    public List<Queue> queues() {
        return list("queues", Queue.class, new Call("GET", "v1", "queues"));
    }

    /**
     * Returns a queue.
     *
     * @param name the name
     * @return the queue
     */
    public Queue queue(String name) {
        return queueCall("GET", "v1", "queues", name);
    }

    /**
     * Replaces all settings of a queue. Creates the queue if there is none.
     *
     * @param queue the queue
     * @param settings the settings
     * @return the queue
     */
    public Queue putSettings(String queue, QueueSettings settings) {
        return call(Queue.class, new Call("PUT", "v1", "queues", queue, "settings").body(settings));
    }

    /**
     * Changes the settings that are given. Creates the queue if there is none.
     *
     * @param queue the queue
     * @param settings the settings to change
     * @return the queue
     */
    public Queue patchSettings(String queue, QueueSettings settings) {
        return call(Queue.class, new Call("PATCH", "v1", "queues", queue, "settings").body(settings));
    }

    /**
     * Stops the deliveries of a queue.
     *
     * @param queue the queue
     * @return the queue
     */
    public Queue pauseQueue(String queue) {
        return queueCall("POST", "v1", "queues", queue, "pause");
    }

    /**
     * Resumes the deliveries of a queue.
     *
     * @param queue the queue
     * @return the queue
     */
    public Queue resumeQueue(String queue) {
        return queueCall("POST", "v1", "queues", queue, "resume");
    }

    private long count(Call call) {
        return member("count", Long.class, call);
    }

    /**
     * Brings dead jobs of a queue back.
     *
     * @param queue the queue
     * @param limit how many at most; 0 for all
     * @return how many
     */
    public long kickQueue(String queue, int limit) {
        return count(new Call("POST", "v1", "queues", queue, "kick").body(fields("limit", limit == 0 ? null : limit)));
    }

    /**
     * Removes finished jobs.
     *
     * @param queue the queue
     * @param state {@link State#DEAD}, {@link State#DONE} or {@link State#CANCELLED}
     * @param olderThan removes only jobs that finished longer ago; {@code null} for all
     * @return how many
     */
    public long removeFinished(String queue, State state, Duration olderThan) {
        return count(new Call("POST", "v1", "queues", queue, "remove-finished")
                .body(fields("state", state, "older_than", millis(olderThan))));
    }

    /**
     * Cancels the waiting jobs of a queue.
     *
     * @param queue the queue
     * @return how many
     */
    public long cancelWaiting(String queue) {
        return count(new Call("POST", "v1", "queues", queue, "cancel-waiting"));
    }

    /**
     * Removes a queue.
     *
     * @param queue the queue
     * @param force also removes a queue that has jobs
     * @return how many jobs it had
     */
    public long removeQueue(String queue, boolean force) {
        return count(new Call("DELETE", "v1", "queues", queue).query(fields("force", force ? "true" : null)));
    }

    /**
     * Returns a page of the groups of a queue that have live jobs or settings, by name.
     *
     * @param queue the queue
     * @param prefix only groups whose name begins with this; {@code null} for all
     * @param limit the largest number of groups of the page, at most 1,000; {@code null} for 100
     * @param page {@link Queue.GroupPage#next} of the page before; {@code null} for the first
     * @return the page
     */
    public Queue.GroupPage groups(String queue, String prefix, Integer limit, String page) {
        return call(Queue.GroupPage.class, new Call("GET", "v1", "queues", queue, "groups")
                .query(fields("prefix", prefix, "limit", limit, "page", page)));
    }

    private Queue.Group patchGroup(String queue, String group, String field, Object value) {
        Map<String, Object> patch = new LinkedHashMap<>();
        patch.put(field, value);
        return call(Queue.Group.class, new Call("PATCH", "v1", "queues", queue, "groups", group).body(patch));
    }

    /**
     * Stops the deliveries of a group.
     *
     * @param queue the queue
     * @param group the group
     * @return the group
     */
    public Queue.Group pauseGroup(String queue, String group) {
        return patchGroup(queue, group, "paused", true);
    }

    /**
     * Resumes the deliveries of a group.
     *
     * @param queue the queue
     * @param group the group
     * @return the group
     */
    public Queue.Group resumeGroup(String queue, String group) {
        return patchGroup(queue, group, "paused", false);
    }

    /**
     * Sets limits of a group of its own.
     *
     * @param queue the queue
     * @param group the group
     * @param pacing the limits; {@code null} lets the group pacing of the queue hold
     * @return the group
     */
    public Queue.Group paceGroup(String queue, String group, Pacing pacing) {
        return patchGroup(queue, group, "pacing", pacing);
    }

    private Schedule scheduleCall(String method, String... path) {
        return call(Schedule.class, new Call(method, path));
    }

    /**
     * Sets the schedule with the name.
     *
     * @param name the name
     * @param schedule the schedule
     * @return the schedule
     */
    public Schedule putSchedule(String name, NewSchedule schedule) {
        return call(Schedule.class, new Call("PUT", "v1", "schedules", name).body(schedule.fields()));
    }

    /**
     * Returns all schedules that the token may see, by name.
     *
     * @return the schedules
     */
    public List<Schedule> schedules() {
        return list("schedules", Schedule.class, new Call("GET", "v1", "schedules"));
    }

    /**
     * Returns a schedule.
     *
     * @param name the name
     * @return the schedule
     */
    public Schedule schedule(String name) {
        return scheduleCall("GET", "v1", "schedules", name);
    }

    /**
     * Pauses a schedule. Occurrences that fall into a pause are skipped.
     *
     * @param name the name
     * @return the schedule
     */
    public Schedule pauseSchedule(String name) {
        return scheduleCall("POST", "v1", "schedules", name, "pause");
    }

    /**
     * Resumes a schedule.
     *
     * @param name the name
     * @return the schedule
     */
    public Schedule resumeSchedule(String name) {
        return scheduleCall("POST", "v1", "schedules", name, "resume");
    }

    /**
     * Removes a schedule.
     *
     * @param name the name
     * @return the schedule as it was
     */
    public Schedule removeSchedule(String name) {
        return scheduleCall("DELETE", "v1", "schedules", name);
    }

    private record Run(Instant due) implements WireType {}

    /**
     * Returns the next occurrences of a schedule.
     *
     * @param name the name
     * @param n how many
     * @return the times
     */
    public List<Instant> nextRuns(String name, int n) {
        Call call = new Call("GET", "v1", "schedules", name, "next").query(fields("n", n));
        return list("next", Run.class, call).stream().map(Run::due).toList();
    }
}
