import java.util.HashMap;
import java.util.Map;

/**
 * What to run, from the command line: see ../README.md.
 */
record Plan(
        String workload,
        int timers,
        long seed,
        int moves,
        long leadMillis,
        long spanMillis,
        long idleMillis) {

    static Plan parse(String[] args, int from) {
        Map<String, String> given = new HashMap<>();
        for (int i = from; i + 1 < args.length; i += 2) {
            given.put(args[i], args[i + 1]);
        }
        return new Plan(
                value(given, "--workload"),
                Integer.parseInt(value(given, "--timers")),
                Long.parseUnsignedLong(value(given, "--seed")),
                Integer.parseInt(value(given, "--moves")),
                Long.parseLong(value(given, "--lead-ms")),
                Long.parseLong(value(given, "--span-ms")),
                Long.parseLong(value(given, "--idle-ms")));
    }

    private static String value(Map<String, String> given, String name) {
        String value = given.get(name);
        if (value == null) {
            throw new IllegalArgumentException(name + " is missing");
        }
        return value;
    }

    /** Fewer are too few for the compiler to take notice. */
    private static final int LEAST_TO_WARM_UP = 50_000;

    /** The same with a tenth of the timers and moves, and little waiting: to warm up. */
    Plan smaller() {
        return new Plan(
                workload,
                Math.max(timers / 10, LEAST_TO_WARM_UP),
                seed,
                Math.max(moves / 10, LEAST_TO_WARM_UP),
                500,
                Math.min(spanMillis, 1_000),
                100);
    }
}
