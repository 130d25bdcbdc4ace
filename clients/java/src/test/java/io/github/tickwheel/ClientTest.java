package io.github.tickwheel;

import static io.github.tickwheel.TestMain.check;
import static io.github.tickwheel.TestMain.equal;
import static io.github.tickwheel.TestMain.thrown;

import io.github.tickwheel.TestMain.Test;
import io.github.tickwheel.testing.Fake;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;

final class ClientTest {
    private static final RetryPolicy QUICK = new RetryPolicy(2, Duration.ofMillis(1), Duration.ofMillis(1));
    private static final String CREATED = "{\"id\":\"1\",\"queue\":\"q\",\"outcome\":\"created\",\"due_ms\":5}";

    private ClientTest() {}

    /** Answers by a script, or passes requests on, and remembers them. */
    private static final class Recorder implements Transport {
        final List<Request> requests = Collections.synchronizedList(new ArrayList<>());
        final List<Response> script = new ArrayList<>();
        final Transport next;

        Recorder(Transport next, Response... script) {
            this.next = next;
            this.script.addAll(List.of(script));
        }

        Client client() {
            return Client.builder("http://test").transport(this).retry(QUICK).build();
        }

        @Override
        public Response send(Request request) throws IOException, InterruptedException {
            requests.add(request);
            if (next != null) {
                return next.send(request);
            }
            Response response = script.remove(0);
            if (response.status() == 0) {
                throw new IOException("the connection broke");
            }
            return response;
        }

        @Override
        public Stream open(Request request) throws IOException {
            throw new IOException("not in this test");
        }

        Set<String> keys() {
            Set<String> keys = new TreeSet<>();
            requests.forEach(request -> keys.add(String.valueOf(request.headers().get("idempotency-key"))));
            return keys;
        }
    }

    private static Transport.Response answer(int status, String body, String retryAfter) {
        return new Transport.Response(status, retryAfter, body.getBytes(StandardCharsets.UTF_8));
    }

    private static Transport.Response created() {
        return answer(201, CREATED, null);
    }

    private static Transport.Response refusal(int status, String code) {
        return answer(status, "{\"status\":" + status + ",\"code\":\"" + code + "\",\"detail\":\"test\"}", null);
    }

    private static Transport.Response hangUp() {
        return answer(0, "", null);
    }

    @Test
    static void concurrentPutsTravelTogether() throws Exception {
        Recorder recorder = new Recorder(new Fake());
        // A long window makes the test independent of the speed of the machine: the batch is sent
        // when it is full.
        try (Client client = Client.builder("http://fake").transport(recorder).batching(Duration.ofHours(1), 50).build()) {
            List<CompletableFuture<PutResult>> puts = new ArrayList<>();
            for (int i = 0; i < 50; i++) {
                puts.add(client.putAsync(NewJob.of("q" + i, i)));
            }
            for (int i = 0; i < 50; i++) {
                equal("q" + i, puts.get(i).get().queue());
            }
        }
        equal(1, recorder.requests.size());
        equal("/v1/jobs/batch", recorder.requests.get(0).path());
        check(!recorder.keys().contains("null"), "a batch without an idempotency key");
    }

    @Test
    static void closeSendsThePutsThatWait() throws Exception {
        Fake fake = new Fake();
        Client client = Client.builder("http://fake").transport(fake).batching(Duration.ofHours(1), 50).build();
        CompletableFuture<PutResult> put = client.putAsync(NewJob.of("q", 1));
        client.close();
        equal(Outcome.CREATED, put.get().outcome());
        equal(Outcome.CREATED, client.put("q", 2).outcome());
    }

    @Test
    static void aPutIsRepeatedWithTheSameKey() {
        Recorder recorder = new Recorder(null, refusal(503, "outcome-unknown"), hangUp(), created());
        equal(Outcome.CREATED, recorder.client().put("q", 1).outcome());
        equal(3, recorder.requests.size());
        equal(1, recorder.keys().size());
        check(!recorder.keys().contains("null"), "a put without an idempotency key");
    }

    @Test
    static void retryAfterIsHonoured() {
        Recorder recorder = new Recorder(
                null, answer(429, "{\"status\":429,\"code\":\"rate-limited\",\"detail\":\"test\"}", "1"), created());
        long start = System.nanoTime();
        recorder.client().put("q", 1);
        check(System.nanoTime() - start >= 1_000_000_000L, "the client did not wait for a second");
    }

    @Test
    static void whatCannotBeRepeatedIsNot() {
        for (Transport.Response response : List.of(refusal(503, "outcome-unknown"), hangUp())) {
            Recorder recorder = new Recorder(null, response);
            thrown(TickwheelException.class, () -> recorder.client().advance(Duration.ofSeconds(1)));
            equal(1, recorder.requests.size());
        }
    }

    @Test
    static void theLastRefusalIsThrown() throws Exception {
        Recorder recorder = new Recorder(null, refusal(429, "full"), refusal(429, "full"), refusal(429, "full"));
        ProblemException problem = thrown(ProblemException.class, () -> recorder.client().put("q", 1));
        check(problem.is(ProblemException.FULL) && problem.status() == 429, problem);
        equal(3, recorder.requests.size());
        Recorder other = new Recorder(null, refusal(403, "forbidden"));
        ExecutionException error = thrown(
                ExecutionException.class, () -> other.client().putAsync(NewJob.of("q", 1)).get());
        check(error.getCause() instanceof ProblemException, error);
    }

    @Test
    static void aRefusalWithoutAProblemDocument() {
        Recorder recorder = new Recorder(null, answer(418, "<html>", null));
        equal(418, thrown(ProblemException.class, () -> recorder.client().queues()).status());
    }

    @Test
    static void anAnswerThatIsNotOneOfTheApi() {
        Recorder recorder = new Recorder(null, answer(200, "<html>", null), answer(200, "[1]", null));
        String message = thrown(TickwheelException.class, () -> recorder.client().health()).getMessage();
        check(message.contains("/healthz"), message);
        thrown(TickwheelException.class, () -> recorder.client().health());
    }

    @Test
    static void aWrongAddressIsRefused() {
        for (String address : List.of("", "localhost:7300", "ftp://host", "://", "http:// x")) {
            String message = thrown(IllegalArgumentException.class, () -> Client.connect(address)).getMessage();
            check(message.contains("http://127.0.0.1:7300"), message);
        }
    }

    @Test
    static void aServerThatIsNotThereIsAConnectionException() {
        Client client = Client.builder("http://127.0.0.1:1").retry(new RetryPolicy(0, Duration.ZERO, Duration.ZERO)).build();
        thrown(ConnectionException.class, () -> client.put("q", 1));
        thrown(ConnectionException.class, client::health);
    }

    @Test
    static void aWebhookSecretMustBeWellFormed() {
        for (String secret : List.of("", "abc", "whsec_", "whsec_***")) {
            thrown(IllegalArgumentException.class, () -> new WebhookVerifier(secret));
        }
        thrown(IllegalArgumentException.class, () -> new WebhookVerifier());
    }

    @Test
    static void theTokenIsSent() {
        Recorder recorder = new Recorder(new Fake());
        Client.builder("http://fake").transport(recorder).token("twk_secret").build().health();
        equal("Bearer twk_secret", recorder.requests.get(0).headers().get("authorization"));
    }

    @Test
    static void anInterruptEndsAPut() throws Exception {
        Client client = Client.builder("http://fake").transport(new Fake()).batching(Duration.ofHours(1), 50).build();
        Thread.currentThread().interrupt();
        thrown(TickwheelException.class, () -> client.put("q", 1));
        check(Thread.interrupted(), "the interrupt was swallowed");
    }
}
