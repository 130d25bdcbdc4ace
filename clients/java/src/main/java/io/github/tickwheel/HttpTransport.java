package io.github.tickwheel;

import java.io.IOException;
import java.io.InputStream;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;

/** Requests over HTTP. */
final class HttpTransport implements Transport {
    private final String base;
    private final HttpClient http;

    HttpTransport(String base, HttpClient http) {
        this.base = base;
        this.http = http;
    }

    @Override
    public Response send(Request request) throws IOException, InterruptedException {
        HttpResponse<byte[]> response = exchange(request, HttpResponse.BodyHandlers.ofByteArray());
        return new Response(response.statusCode(), response.headers().firstValue("retry-after").orElse(null), response.body());
    }

    @Override
    public Stream open(Request request) throws IOException, InterruptedException {
        HttpResponse<InputStream> response = exchange(request, HttpResponse.BodyHandlers.ofInputStream());
        return new Stream(response.statusCode(), response.body());
    }

    /** The timeout of an HttpRequest ends with the headers; this one covers the body too. */
    private <T> HttpResponse<T> exchange(Request request, HttpResponse.BodyHandler<T> handler)
            throws IOException, InterruptedException {
        CompletableFuture<HttpResponse<T>> pending = http.sendAsync(convert(request), handler);
        try {
            return pending.get(request.timeout().toNanos(), TimeUnit.NANOSECONDS);
        } catch (TimeoutException error) {
            throw new IOException("no answer within " + request.timeout().toMillis() + " ms", error);
        } catch (ExecutionException error) {
            throw new IOException(String.valueOf(error.getCause().getMessage()), error.getCause());
        } finally {
            pending.cancel(true);
        }
    }

    private HttpRequest convert(Request request) {
        HttpRequest.Builder builder = HttpRequest.newBuilder(URI.create(base + request.path()));
        HttpRequest.BodyPublisher body = request.body() == null
                ? HttpRequest.BodyPublishers.noBody()
                : HttpRequest.BodyPublishers.ofByteArray(request.body());
        request.headers().forEach(builder::header);
        return builder.method(request.method(), body).build();
    }
}
