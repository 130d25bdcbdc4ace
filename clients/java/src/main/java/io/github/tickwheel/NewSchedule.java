package io.github.tickwheel;

import java.time.Duration;
import java.util.LinkedHashMap;
import java.util.Map;

/**
 * A schedule to set, and the job that each occurrence puts. Each method returns a changed copy:
 *
 * <pre>{@code
 * NewSchedule.cron("0 9 * * MON-FRI", NewJob.of("reports", "daily")).timezone("Europe/Berlin")
 * }</pre>
 */
public final class NewSchedule {
    private final Map<String, Object> fields;

    private NewSchedule(Map<String, Object> fields) {
        this.fields = fields;
    }

    /**
     * Returns a schedule by the calendar.
     *
     * @param cron a cron expression of five or six fields
     * @param job the job of each occurrence. It has no due time, id or follow-up; its delay counts
     *     from the occurrence.
     * @return the schedule
     */
    public static NewSchedule cron(String cron, NewJob job) {
        return new NewSchedule(new LinkedHashMap<>(job.fields())).with("cron", cron);
    }

    /**
     * Returns a schedule with a period.
     *
     * @param period the time from one occurrence to the next
     * @param job the job of each occurrence, as for {@link #cron}
     * @return the schedule
     */
    public static NewSchedule every(Duration period, NewJob job) {
        return new NewSchedule(new LinkedHashMap<>(job.fields())).with("every", Wire.millis(period));
    }

    private NewSchedule with(String name, Object value) {
        Map<String, Object> changed = new LinkedHashMap<>(fields);
        changed.put(name, Wire.write(value));
        return new NewSchedule(changed);
    }

    /**
     * Sets the time zone of the cron expression.
     *
     * @param timezone its IANA name; defaults to UTC
     * @return the changed schedule
     */
    public NewSchedule timezone(String timezone) {
        return with("timezone", timezone);
    }

    /**
     * Sets what happens to missed occurrences.
     *
     * @param misfire the policy; defaults to {@link Misfire#ONCE}
     * @return the changed schedule
     */
    public NewSchedule misfire(Misfire misfire) {
        return with("misfire", misfire);
    }

    /**
     * Sets how many missed occurrences put a job at most, with {@link Misfire#ALL}.
     *
     * @param limit the number
     * @return the changed schedule
     */
    public NewSchedule misfireLimit(int limit) {
        return with("misfire_limit", limit);
    }

    /**
     * Sets how late an occurrence may be without being missed.
     *
     * @param grace the duration; defaults to 1 s
     * @return the changed schedule
     */
    public NewSchedule grace(Duration grace) {
        return with("grace", Wire.millis(grace));
    }

    Map<String, Object> fields() {
        return fields;
    }
}
