package io.github.tickwheel;

import java.util.List;

/**
 * What happened in the last minutes or hours, in columns: the values at one index belong together. A
 * value is {@code null} where the server has no data.
 *
 * @param window how far back it goes: {@code 15m} or {@code 24h}
 * @param stepMs the time between two points, in milliseconds
 * @param queue the queue; {@code null} for all that the token may see
 * @param tracked whether the server keeps a history of this queue; the columns are empty if not
 * @param atMs the end of the time that each point covers, in milliseconds since 1970
 * @param put jobs put
 * @param delivered deliveries to workers
 * @param acked jobs acknowledged
 * @param failed attempts that failed, including leases that expired
 * @param died jobs that died
 * @param latenessP50Ms how long after their due time half of the jobs were delivered at most
 * @param latenessP99Ms the same for 99 of 100 jobs
 * @param latenessMaxMs the longest lateness
 * @param scheduled jobs that were not due yet, at the end
 * @param ready jobs that waited for a worker, at the end
 * @param leased jobs that workers had, at the end
 * @param dead dead jobs, at the end
 * @param pacingUtilisation the share of the queue's limits that was used, from 0 to 1
 */
public record History(
        String window, long stepMs, String queue, boolean tracked, List<Long> atMs, List<Long> put,
        List<Long> delivered, List<Long> acked, List<Long> failed, List<Long> died, List<Long> latenessP50Ms,
        List<Long> latenessP99Ms, List<Long> latenessMaxMs, List<Long> scheduled, List<Long> ready,
        List<Long> leased, List<Long> dead, List<Double> pacingUtilisation)
        implements WireType {
    /** How far back a history goes. */
    public enum Window {
        /** The last 15 minutes, a point for each second. */
        MINUTES_15("15m"),
        /** The last 24 hours, a point for each minute. */
        HOURS_24("24h");

        final String text;

        Window(String text) {
            this.text = text;
        }
    }
}
