package io.github.tickwheel;

import java.time.Duration;
import java.time.Instant;
import java.util.List;
import java.util.Map;

/**
 * A target: an HTTP endpoint that gets the jobs of the queues that name it.
 *
 * @param name the name
 * @param state how deliveries go
 * @param reason why the target is not active
 * @param cause the same for programs
 * @param nextProbe when a held target is tried again with one job
 * @param queues the queues whose jobs it gets
 * @param inFlight requests that are not answered yet
 * @param counts what became of requests since the server started
 * @param responses the last 5 responses to jobs since the server started, the newest first; {@code
 *     null} if there are none
 * @param settings the settings; values of headers that look like credentials are replaced
 * @param secret the new signing secret; only the answer to the request that made it has it
 * @param secrets the signing secrets, the newest first
 */
public record Target(
        String name, Status state, String reason, Cause cause, Instant nextProbe,
        List<String> queues, long inFlight, Counts counts, List<Response> responses,
        Settings settings, String secret, List<Secret> secrets)
        implements WireType {
    /** How deliveries to a target go. */
    public enum Status implements WireType {
        /** As fast as its pacing allows. */
        ACTIVE,
        /** After trouble: the rate starts low and doubles each second while requests succeed. */
        SLOW,
        /** Nothing until the next probe, then one job. */
        HELD,
        /** The target answered 410: nothing until it is resumed. */
        STOPPED,
        /** The target was paused: nothing until it is resumed. */
        PAUSED
    }

    /**
     * What became of the requests to a target since the server started.
     *
     * @param delivered requests answered with 2xx
     * @param failed failed attempts
     * @param held jobs that were put back without counting an attempt: 429, 503 or 410
     */
    public record Counts(long delivered, long failed, long held) implements WireType {}

    /**
     * Why a target is not active or a request to it failed, for programs.
     *
     * @param code what went wrong, such as {@code answered}, {@code timeout} or {@code unreachable}
     * @param detail the value that belongs to the code
     * @param recovering whether a request has succeeded since, so that the rate grows again
     */
    public record Cause(String code, String detail, boolean recovering) implements WireType {}

    /**
     * A target's response to a job, or why there was none.
     *
     * @param at when the request ended
     * @param durationMs how long it took, in milliseconds
     * @param verdict what became of the job: {@code delivered}, {@code failed}, {@code dead}, {@code
     *     held} or {@code stopped}
     * @param status the status of the response
     * @param excerpt the beginning of its body
     * @param error why there was no response
     * @param cause the same for programs
     */
    public record Response(
            Instant at, long durationMs, String verdict, Integer status, String excerpt, String error,
            Cause cause)
            implements WireType {}

    /**
     * A signing secret, without the secret itself.
     *
     * @param created when it was added
     * @param expires when it stops signing, if another has replaced it
     */
    public record Secret(Instant created, Instant expires) implements WireType {}

    /**
     * The settings of a target. In a request, {@code null} stands for the default ({@link
     * Client#putTarget}) or for no change ({@link Client#patchTarget}).
     *
     * @param url the URL; path and query may contain {@code {id}}, {@code {key}}, {@code {queue}} and
     *     {@code {header:NAME}}
     * @param method {@code POST} by default
     * @param headers headers of each request
     * @param forward names of job headers that each request carries
     * @param timeout how long a request may take: 1 ms to 30 min, 10 s by default
     * @param ca certificates in PEM to trust instead of the public ones
     * @param pacing the maximum number of requests in any window, and at once (16 by default)
     * @param retry the delay before a failed job is sent again, where the job names none
     * @param maxAttempts the maximum number of attempts, where the job names none
     */
    public record Settings(
            String url, String method, Map<String, String> headers, List<String> forward,
            Duration timeout, String ca, Pacing pacing, Retry retry, Integer maxAttempts)
            implements WireType {
        /** Settings without any value, for {@link Client#patchTarget}. */
        public static final Settings NONE = new Settings(null, null, null, null, null, null, null, null, null);

        /**
         * Returns the default settings for a URL.
         *
         * @param url the URL, {@code http} or {@code https}
         * @return the settings
         */
        public static Settings of(String url) {
            return Wire.with(NONE, "url", url);
        }

        /**
         * Sets the method.
         *
         * @param method {@code POST}, {@code PUT}, {@code PATCH}, {@code DELETE} or {@code GET}
         * @return the changed settings
         */
        public Settings withMethod(String method) {
            return Wire.with(this, "method", method);
        }

        /**
         * Sets the headers of each request.
         *
         * @param headers the headers
         * @return the changed settings
         */
        public Settings withHeaders(Map<String, String> headers) {
            return Wire.with(this, "headers", headers);
        }

        /**
         * Sets the job headers that each request carries.
         *
         * @param names their names
         * @return the changed settings
         */
        public Settings withForward(String... names) {
            return Wire.with(this, "forward", List.of(names));
        }

        /**
         * Sets how long a request may take.
         *
         * @param timeout 1 ms to 30 min
         * @return the changed settings
         */
        public Settings withTimeout(Duration timeout) {
            return Wire.with(this, "timeout", timeout);
        }

        /**
         * Sets the certificates to trust instead of the public ones.
         *
         * @param pem certificates in PEM
         * @return the changed settings
         */
        public Settings withCa(String pem) {
            return Wire.with(this, "ca", pem);
        }

        /**
         * Sets the maximum number of requests in any window, and at once.
         *
         * @param pacing the limits
         * @return the changed settings
         */
        public Settings withPacing(Pacing pacing) {
            return Wire.with(this, "pacing", pacing);
        }

        /**
         * Sets the delay before a failed job is sent again, where the job names none.
         *
         * @param retry the policy
         * @return the changed settings
         */
        public Settings withRetry(Retry retry) {
            return Wire.with(this, "retry", retry);
        }

        /**
         * Sets the maximum number of attempts, where the job names none.
         *
         * @param maxAttempts the number
         * @return the changed settings
         */
        public Settings withMaxAttempts(int maxAttempts) {
            return Wire.with(this, "maxAttempts", maxAttempts);
        }
    }

    /**
     * One request to a target, and its response.
     *
     * @param id the id of the request, which is its {@code webhook-id}; no job has it
     * @param method the method
     * @param url the URL
     * @param requestHeaders the headers as they were sent, without credentials
     * @param requestBody the body that was sent
     * @param address the address that was dialled
     * @param status the status of the response
     * @param responseHeaders the headers of the response
     * @param responseBody the beginning of the body of the response
     * @param error what went wrong
     * @param cause the same for programs
     * @param durationMs how long it took, in milliseconds
     * @param verdict what would become of a job: {@code delivered}, {@code failed}, {@code dead},
     *     {@code held} or {@code stopped}
     */
    public record Trial(
            String id, String method, String url, List<Header> requestHeaders, String requestBody,
            String address, Integer status, List<Header> responseHeaders, String responseBody,
            String error, Cause cause, long durationMs, String verdict)
            implements WireType {}

    /**
     * A header of HTTP.
     *
     * @param name the name
     * @param value the value
     */
    public record Header(String name, String value) implements WireType {}

    /**
     * A change of the state of a target.
     *
     * @param target the target
     * @param state the new state; {@code null} if the target was removed
     * @param reason why the target is not active
     * @param cause the same for programs
     * @param at when the state changed
     * @param nextProbe when a held target is tried again
     */
    public record Change(
            String target, Status state, String reason, Cause cause, Instant at, Instant nextProbe)
            implements WireType {}
}
