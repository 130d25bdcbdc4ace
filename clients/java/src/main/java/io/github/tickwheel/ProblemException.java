package io.github.tickwheel;

import java.time.Duration;

/**
 * The server refused a request: a problem document of RFC 9457.
 *
 * <pre>{@code
 * try {
 *     client.cancelByKey("orders", "order-42");
 * } catch (ProblemException problem) {
 *     if (!problem.is(ProblemException.NOT_FOUND)) throw problem;
 * }
 * }</pre>
 */
public final class ProblemException extends TickwheelException {
    /** The token is missing or invalid. */
    public static final String UNAUTHORIZED = "unauthorized";
    /** The token does not allow this. */
    public static final String FORBIDDEN = "forbidden";
    /** The job, queue, schedule or target does not exist. */
    public static final String NOT_FOUND = "not-found";
    /** A live job has the key. */
    public static final String KEY_EXISTS = "key-exists";
    /** A job has the id. */
    public static final String ID_EXISTS = "id-exists";
    /** The lease has expired, or its job is finished. */
    public static final String STALE_LEASE = "stale-lease";
    /** The state of the job or queue does not allow this. */
    public static final String WRONG_STATE = "wrong-state";
    /** A field is invalid. */
    public static final String INVALID_FIELD = "invalid-field";
    /** A field is missing. */
    public static final String MISSING_FIELD = "missing-field";
    /** A value exceeds a limit. */
    public static final String OVER_LIMIT = "over-limit";
    /** The idempotency key was used with another request. */
    public static final String IDEMPOTENCY_CONFLICT = "idempotency-conflict";
    /** Too many requests. */
    public static final String RATE_LIMITED = "rate-limited";
    /** The server has no room for more. */
    public static final String FULL = "full";
    /** The server cannot answer now. */
    public static final String UNAVAILABLE = "unavailable";
    /** The request may or may not have been applied. */
    public static final String OUTCOME_UNKNOWN = "outcome-unknown";

    private static final long serialVersionUID = 1;

    private final Problem problem;
    private final Duration retryAfter;

    ProblemException(Problem problem, Duration retryAfter) {
        super(problem.describe(), null);
        this.problem = problem;
        this.retryAfter = retryAfter;
    }

    /**
     * Returns the problem document.
     *
     * @return the document
     */
    public Problem problem() {
        return problem;
    }

    /**
     * Returns the kind of problem. The server explains each at {@code /problems/CODE}.
     *
     * @return the code, such as {@code not-found}
     */
    public String code() {
        return problem.code();
    }

    /**
     * Returns the HTTP status.
     *
     * @return the status
     */
    public int status() {
        return problem.status();
    }

    /**
     * Returns whether this is the kind of problem.
     *
     * @param code one of the constants of this class
     * @return whether the codes are the same
     */
    public boolean is(String code) {
        return code.equals(problem.code());
    }

    /**
     * Returns how long the server asked to wait.
     *
     * @return the duration; zero if the server did not ask
     */
    public Duration retryAfter() {
        return retryAfter;
    }

    /** Returns whether the server applied nothing and may accept the same request later. */
    boolean isRefusedForNow() {
        return (problem.status() == 429 || problem.status() == 503) && !is(OUTCOME_UNKNOWN);
    }
}
