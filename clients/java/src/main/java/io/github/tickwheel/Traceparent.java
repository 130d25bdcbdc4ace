package io.github.tickwheel;

import java.util.concurrent.Callable;

/**
 * The W3C trace context of the thread. Puts give it to their jobs as the header {@code traceparent},
 * and a {@link Worker} sets it while a handler runs, so jobs that a handler puts stay in the trace.
 */
public final class Traceparent {
    /** The job header that carries the trace context. */
    public static final String HEADER = "traceparent";

    private static final ThreadLocal<String> CURRENT = new ThreadLocal<>();

    private Traceparent() {}

    /**
     * Returns the trace context of this thread.
     *
     * @return text such as {@code 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01}, or {@code
     *     null}
     */
    public static String current() {
        return CURRENT.get();
    }

    /**
     * Calls the task with a trace context for this thread, and restores the previous one.
     *
     * @param traceparent the trace context; {@code null} for none
     * @param task what to call
     * @param <T> the type of its value
     * @return the value of the task
     * @throws Exception if the task throws it
     */
    public static <T> T call(String traceparent, Callable<T> task) throws Exception {
        String previous = CURRENT.get();
        CURRENT.set(traceparent);
        try {
            return task.call();
        } finally {
            if (previous == null) {
                CURRENT.remove();
            } else {
                CURRENT.set(previous);
            }
        }
    }
}
