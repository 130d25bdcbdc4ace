package io.github.tickwheel;

import java.time.Duration;
import java.util.function.Function;

/**
 * The answer to one item of a batch: a value or a problem.
 *
 * @param ok the value; {@code null} if the item was refused
 * @param error the problem; {@code null} if the item was accepted
 * @param <T> the type of the value
 */
public record Result<T>(T ok, Problem error) {
    /**
     * Returns the value.
     *
     * @return the value
     * @throws ProblemException if the item was refused
     */
    public T get() {
        if (error != null) {
            throw new ProblemException(error, Duration.ZERO);
        }
        return ok;
    }

    /**
     * Returns whether the item was accepted.
     *
     * @return whether there is a value
     */
    public boolean isOk() {
        return error == null;
    }

    <R> Result<R> map(Function<T, R> convert) {
        return error == null ? new Result<>(convert.apply(ok), null) : new Result<>(null, error);
    }
}
