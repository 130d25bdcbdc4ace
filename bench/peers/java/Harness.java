/**
 * One run of one timer of the JVM: {@code java Harness CONTENDER --workload W ...}, where CONTENDER
 * is the name of a class here. Prints one line of JSON.
 *
 * Before the run the same work is done several times with a tenth of the timers, on timers of their
 * own, so that the compiler has done its part.
 */
public final class Harness {
    private Harness() {}

    public static void main(String[] args) throws Exception {
        Class<?> contender = Class.forName(args[0]);
        Plan plan = Plan.parse(args, 1);
        run(contender, plan);
        // Threads of a pool would keep the process alive.
        System.exit(0);
    }

    private static void run(Class<?> contender, Plan plan) throws Exception {
        int times = switch (plan.workload()) {
            // Nothing that is compiled takes memory of the heap, but what was thrown away might.
            case "memory" -> 0;
            // These last for seconds, in which the same few methods run all the time.
            case "fire", "idle", "blocked" -> 1;
            default -> 5;
        };
        for (int i = 0; i < times; i++) {
            workloads(contender, plan.smaller()).run();
        }
        Lateness.sleep(300);
        Workloads<Object> workloads = workloads(contender, plan);
        workloads.run();
        System.out.println(workloads.json());
    }

    private static Workloads<Object> workloads(Class<?> contender, Plan plan) {
        return new Workloads<>(() -> make(contender), plan);
    }

    @SuppressWarnings("unchecked")
    private static Contender<Object> make(Class<?> contender) {
        try {
            return (Contender<Object>) contender.getDeclaredConstructor().newInstance();
        } catch (ReflectiveOperationException error) {
            throw new IllegalArgumentException("cannot make a " + contender.getName(), error);
        }
    }
}
