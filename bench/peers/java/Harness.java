/**
 * One run of one timer of the JVM: {@code java Harness CONTENDER --workload W ...}, where CONTENDER
 * is the name of a class here. Prints one line of JSON.
 *
 * Before the run the same work is done with a tenth of the timers, on timers of their own, until
 * the compiler has nothing left to do.
 */
public final class Harness {
    /** How often the work is done before it counts. */
    private static final int WARM_UPS = 5;
    /** Workloads that last seconds however few timers there are warm up once. */
    private static final int SLOW_WARM_UPS = 1;

    private Harness() {}

    public static void main(String[] args) throws Exception {
        Class<?> contender = Class.forName(args[0]);
        Plan plan = Plan.parse(args, 1);
        run(contender, plan);
        // Threads of a pool would keep the process alive.
        System.exit(0);
    }

    private static void run(Class<?> contender, Plan plan) throws Exception {
        boolean slow = plan.workload().equals("fire")
                || plan.workload().equals("blocked")
                || plan.workload().equals("idle");
        int times = slow ? SLOW_WARM_UPS : WARM_UPS;
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
