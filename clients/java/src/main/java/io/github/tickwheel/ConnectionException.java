package io.github.tickwheel;

/** A request got no complete answer: the server cannot be reached, or did not answer in time. */
public class ConnectionException extends TickwheelException {
    private static final long serialVersionUID = 1;

    /**
     * Makes an exception.
     *
     * @param message what happened
     * @param cause the cause, or {@code null}
     */
    public ConnectionException(String message, Throwable cause) {
        super(message, cause);
    }
}
