package io.github.tickwheel;

/**
 * An operation failed. {@link ProblemException} is an answer of the server, {@link
 * ConnectionException} is no answer.
 */
public class TickwheelException extends RuntimeException {
    private static final long serialVersionUID = 1;

    /**
     * Makes an exception.
     *
     * @param message what is wrong, and what to do
     * @param cause the cause, or {@code null}
     */
    public TickwheelException(String message, Throwable cause) {
        super(message, cause);
    }
}
