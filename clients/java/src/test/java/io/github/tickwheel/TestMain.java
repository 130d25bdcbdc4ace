package io.github.tickwheel;

import java.io.PrintStream;
import java.lang.annotation.Retention;
import java.lang.annotation.RetentionPolicy;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Comparator;
import java.util.List;
import java.util.logging.Level;
import java.util.logging.Logger;

/**
 * Runs the tests: every method with {@link Test} of the classes below. Arguments name classes to run
 * instead of all. A test that takes longer than two minutes ends the run.
 */
public final class TestMain {
    private static final List<Class<?>> CLASSES = List.of(
            JsonTest.class, ClientTest.class, WorkerTest.class, ApiTest.class, ConformanceTest.class,
            SnippetTest.class, SoakTest.class);
    private static final long GUARD_MS = 120_000;
    /** Workers warn about servers that tests kill. */
    private static final Logger LOG = Logger.getLogger("io.github.tickwheel");

    /** A test. */
    @Retention(RetentionPolicy.RUNTIME)
    @interface Test {}

    /** Part of a test: a name and what it does. */
    record Case(String name, Body body) {}

    /** What a test does. */
    interface Body {
        void run() throws Throwable;
    }

    private TestMain() {}

    public static void main(String[] arguments) throws Exception {
        LOG.setLevel(Level.OFF);
        List<String> wanted = Arrays.asList(arguments);
        int run = 0;
        List<String> failed = new ArrayList<>();
        for (Class<?> type : CLASSES) {
            if (!wanted.isEmpty() && !wanted.contains(type.getSimpleName())) {
                continue;
            }
            long start = System.nanoTime();
            for (Case test : cases(type)) {
                run++;
                if (!passes(type.getSimpleName() + "." + test.name(), test.body())) {
                    failed.add(type.getSimpleName() + "." + test.name());
                }
            }
            System.out.printf("%s took %.1f s%n", type.getSimpleName(), (System.nanoTime() - start) / 1e9);
        }
        System.out.printf("%d tests, %d failed %s%n", run, failed.size(), failed);
        System.exit(failed.isEmpty() && run > 0 ? 0 : 1);
    }

    private static List<Case> cases(Class<?> type) throws Exception {
        List<Case> cases = new ArrayList<>();
        Method[] methods = type.getDeclaredMethods();
        Arrays.sort(methods, Comparator.comparing(Method::getName));
        for (Method method : methods) {
            if (method.isAnnotationPresent(Test.class) && method.getReturnType() == List.class) {
                for (Object made : (List<?>) method.invoke(null)) {
                    cases.add((Case) made);
                }
            } else if (method.isAnnotationPresent(Test.class)) {
                cases.add(new Case(method.getName(), () -> {
                    try {
                        method.invoke(null);
                    } catch (InvocationTargetException error) {
                        throw error.getCause();
                    }
                }));
            }
        }
        return cases;
    }

    private static boolean passes(String name, Body body) throws InterruptedException {
        Throwable[] failure = {new AssertionError("still running after " + GUARD_MS / 1000 + " s")};
        Thread thread = new Thread(() -> {
            try {
                body.run();
                failure[0] = null;
            } catch (Throwable error) {
                failure[0] = error;
            }
        });
        thread.setDaemon(true);
        thread.start();
        thread.join(GUARD_MS);
        if (failure[0] != null) {
            PrintStream out = System.out;
            out.println("FAILED " + name);
            failure[0].printStackTrace(out);
            if (thread.isAlive()) {
                out.println("The thread of the test:");
                Arrays.stream(thread.getStackTrace()).forEach(frame -> out.println("    " + frame));
            }
        }
        return failure[0] == null;
    }

    static void check(boolean condition, Object message) {
        if (!condition) {
            throw new AssertionError(String.valueOf(message));
        }
    }

    static void equal(Object expected, Object actual) {
        check(java.util.Objects.equals(expected, actual), "expected " + expected + ", got " + actual);
    }

    /** Returns the exception that the body throws. */
    static <E extends Throwable> E thrown(Class<E> type, Body body) {
        try {
            body.run();
        } catch (Throwable error) {
            check(type.isInstance(error), "expected " + type.getSimpleName() + ", got " + error);
            return type.cast(error);
        }
        throw new AssertionError("expected " + type.getSimpleName() + ", got no exception");
    }
}
