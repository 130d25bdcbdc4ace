package io.github.tickwheel;

import java.io.IOException;
import java.io.InputStream;
import java.time.Duration;
import java.util.Map;

/**
 * Sends requests to a server. The default one uses {@link java.net.http.HttpClient}; {@link
 * io.github.tickwheel.testing.Fake} is another. Implementations are safe for use by several threads.
 */
public interface Transport {
    /**
     * A request.
     *
     * @param method the method
     * @param path the path with its query
     * @param headers the headers
     * @param body the body, or {@code null}
     * @param timeout how long the whole exchange may take, up to the headers for {@link #open}
     */
    record Request(String method, String path, Map<String, String> headers, byte[] body, Duration timeout) {}

    /**
     * A response.
     *
     * @param status the status
     * @param retryAfter the header {@code retry-after}, or {@code null}
     * @param body the body
     */
    record Response(int status, String retryAfter, byte[] body) {}

    /**
     * A response whose body is still to be read. Closing the body ends the exchange.
     *
     * @param status the status
     * @param body the body
     */
    record Stream(int status, InputStream body) {}

    /**
     * Sends a request and reads the response.
     *
     * @param request the request
     * @return the response
     * @throws IOException if there is no complete response in time
     * @throws InterruptedException if the thread is interrupted
     */
    Response send(Request request) throws IOException, InterruptedException;

    /**
     * Sends a request and returns after the headers of the response.
     *
     * @param request the request
     * @return the response
     * @throws IOException if there is no response in time
     * @throws InterruptedException if the thread is interrupted
     */
    Stream open(Request request) throws IOException, InterruptedException;
}
