package io.github.tickwheel;

import java.nio.charset.StandardCharsets;
import java.security.GeneralSecurityException;
import java.security.MessageDigest;
import java.time.Duration;
import java.time.Instant;
import java.time.InstantSource;
import java.util.ArrayList;
import java.util.Base64;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import javax.crypto.Mac;
import javax.crypto.spec.SecretKeySpec;

/** Checks the signatures of webhooks, by the Standard Webhooks specification. */
public final class WebhookVerifier {
    private static final String ALGORITHM = "HmacSHA256";

    private final List<byte[]> keys = new ArrayList<>();
    private final Duration tolerance;
    private final InstantSource clock;

    /**
     * Makes a verifier that accepts webhooks of the last and next 5 minutes. It accepts a signature by
     * any of the secrets, so that a secret can be replaced without a gap.
     *
     * @param secrets one or more secrets: {@code whsec_} and base 64
     * @throws IllegalArgumentException if there is no secret, or one is malformed
     */
    public WebhookVerifier(String... secrets) {
        this(Duration.ofMinutes(5), InstantSource.system(), secrets);
    }

    /**
     * Makes a verifier with a clock and a tolerance of its own.
     *
     * @param tolerance by how much the time of a webhook may differ from now
     * @param clock the current time
     * @param secrets one or more secrets: {@code whsec_} and base 64
     * @throws IllegalArgumentException if there is no secret, or one is malformed
     */
    public WebhookVerifier(Duration tolerance, InstantSource clock, String... secrets) {
        this.tolerance = tolerance;
        this.clock = clock;
        for (String secret : secrets) {
            if (!secret.matches("whsec_[A-Za-z0-9+/]+={0,2}")) {
                throw new IllegalArgumentException("a webhook secret must be \"whsec_\" followed by base 64");
            }
            keys.add(Base64.getDecoder().decode(secret.substring("whsec_".length())));
        }
        if (keys.isEmpty()) {
            throw new IllegalArgumentException("a webhook verifier needs at least one secret");
        }
    }

    /**
     * Checks that the body was signed recently with one of the secrets.
     *
     * @param headers the headers of the request, in any case: {@code webhook-id}, {@code
     *     webhook-timestamp} and {@code webhook-signature}
     * @param body the body as it was received
     * @throws InvalidSignatureException if it was not
     */
    public void verify(Map<String, String> headers, byte[] body) throws InvalidSignatureException {
        Map<String, String> given = new TreeMap<>(String.CASE_INSENSITIVE_ORDER);
        given.putAll(headers);
        String id = given.getOrDefault("webhook-id", "");
        String timestamp = given.getOrDefault("webhook-timestamp", "");
        if (id.isEmpty() || !timestamp.matches("[0-9]{1,12}")) {
            throw new InvalidSignatureException("the headers webhook-id and webhook-timestamp are missing or malformed");
        }
        Duration age = Duration.between(Instant.ofEpochSecond(Long.parseLong(timestamp)), clock.instant());
        if (age.abs().compareTo(tolerance) > 0) {
            throw new InvalidSignatureException("the timestamp is " + age + " from now, more than " + tolerance);
        }
        byte[] start = (id + "." + timestamp + ".").getBytes(StandardCharsets.UTF_8);
        for (String signature : given.getOrDefault("webhook-signature", "").split(" ")) {
            if (signature.startsWith("v1,") && isSigned(start, body, signature.substring(3))) {
                return;
            }
        }
        throw new InvalidSignatureException("no signature of version 1 matches");
    }

    private boolean isSigned(byte[] start, byte[] body, String given) {
        boolean isSigned = false;
        for (byte[] key : keys) {
            try {
                Mac mac = Mac.getInstance(ALGORITHM);
                mac.init(new SecretKeySpec(key, ALGORITHM));
                mac.update(start);
                String wanted = Base64.getEncoder().encodeToString(mac.doFinal(body));
                isSigned |= MessageDigest.isEqual(wanted.getBytes(StandardCharsets.UTF_8), given.getBytes(StandardCharsets.UTF_8));
            } catch (GeneralSecurityException error) {
                throw new IllegalStateException("every JDK has " + ALGORITHM, error);
            }
        }
        return isSigned;
    }

    /** A webhook was not signed by the server, or not recently. */
    public static final class InvalidSignatureException extends Exception {
        private static final long serialVersionUID = 1;

        InvalidSignatureException(String message) {
            super("invalid webhook signature: " + message);
        }
    }
}
