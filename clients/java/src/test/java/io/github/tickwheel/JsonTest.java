package io.github.tickwheel;

import static io.github.tickwheel.TestMain.equal;
import static io.github.tickwheel.TestMain.thrown;

import io.github.tickwheel.TestMain.Test;
import java.math.BigDecimal;
import java.math.BigInteger;
import java.time.Duration;
import java.time.Instant;
import java.util.Arrays;
import java.util.List;
import java.util.Map;

final class JsonTest {
    private JsonTest() {}

    enum Kind { EXPRESS, NORMAL }

    record Purchase(int order, String customerName, Kind kind, List<Item> items, Instant placed, Duration limit, Double total) {}

    record Item(String sku, long count, boolean gift) {}

    @Test
    static void whatIsWrittenIsReadAgain() {
        for (String text : List.of(
                "null", "true", "[]", "{}", "-12", "9223372036854775807", "0.1", "1.0E300", "\"\"",
                "{\"a\":[1,2.5,{\"b\":null}],\"ü\":\"時 🎡\"}", "\"a\\\"b\\\\c\\n\\u0001\"", "\"\\ud800\"")) {
            equal(text, Json.write(Json.parse(text)));
        }
        equal(Map.of("a", List.of(1L)), Json.parse(" { \"a\" :\t[ 1 ] }\r\n"));
        equal("/\b\f\n\r\té", Json.parse("\"\\/\\b\\f\\n\\r\\t\\u00e9\""));
    }

    @Test
    static void numbersKeepTheirValue() {
        equal(new BigInteger("123456789012345678901"), Json.parse("123456789012345678901"));
        equal(new BigDecimal("0.1234567890123456789"), Json.parse("0.1234567890123456789"));
        equal(1e5, Json.parse("1e5"));
        equal(-5L, Json.parse("-5"));
        equal(Long.MIN_VALUE, Json.parse("-9223372036854775808"));
    }

    @Test
    static void whatIsNotJsonIsRefused() {
        for (String text : List.of(
                "", "nul", "[1,]", "{\"a\"}", "{\"a\":1,}", "{a:1}", "01", "1.", ".5", "+1", "1e", "--1", "\"", "\"\\x\"",
                "\"\\u12\"", "\"\n\"", "[1 2]", "1 1", "[".repeat(513), "'a'")) {
            thrown(IllegalArgumentException.class, () -> Json.parse(text));
        }
        Json.parse("[".repeat(512) + "]".repeat(512));
    }

    @Test
    static void recordsOfTheUserKeepTheirNames() {
        Purchase order = new Purchase(
                42, "Ada", Kind.EXPRESS, List.of(new Item("a-1", 2, true)), Instant.ofEpochMilli(1), Duration.ofMinutes(30), null);
        String text = Json.write(order);
        equal("{\"order\":42,\"customerName\":\"Ada\",\"kind\":\"EXPRESS\",\"items\":[{\"sku\":\"a-1\",\"count\":2,\"gift\":true}],"
                + "\"placed\":\"1970-01-01T00:00:00.001Z\",\"limit\":\"PT30M\"}", text);
        equal(order, Wire.read(Json.parse(text), Purchase.class));
        thrown(IllegalArgumentException.class, () -> Wire.read(Json.parse("{\"order\":\"x\"}"), Purchase.class));
        thrown(ArithmeticException.class, () -> Wire.read(Json.parse("{\"order\":1.5}"), Purchase.class));
        thrown(IllegalArgumentException.class, () -> Wire.read(Json.parse("{\"kind\":\"SLOW\"}"), Purchase.class));
        thrown(IllegalArgumentException.class, () -> Json.write(new Object()));
        thrown(IllegalArgumentException.class, () -> Json.write(Double.NaN));
    }

    @Test
    static void recordsOfTheApiAreInSnakeCase() {
        QueueSettings settings = QueueSettings.NONE
                .withLease(Duration.ofMinutes(1)).withMaxAttempts(3).withOrder(Order.PRIORITY)
                .withRetry(Retry.list(Duration.ofSeconds(1), Duration.ofNanos(1)));
        equal("{\"lease\":60000,\"max_attempts\":3,\"retry\":{\"list\":[1000,1]},\"order\":\"priority\"}", Json.write(settings));
        equal(State.DEAD, Wire.read("dead", State.class));
        equal(null, Wire.read("a state of the future", State.class));
    }

    @Test
    static void durationsAreReadAsTheServerWritesThem() {
        Map<Object, Duration> expected = Map.of(
                "1h30m", Duration.ofMinutes(90), "1h 30m", Duration.ofMinutes(90), "2w1d", Duration.ofDays(15),
                "250ms", Duration.ofMillis(250), 1500L, Duration.ofMillis(1500));
        expected.forEach((value, duration) -> equal(duration, Wire.duration(value)));
        for (String text : Arrays.asList("5 minutes", "m", "5", "-1s", "1h x")) {
            thrown(IllegalArgumentException.class, () -> Wire.duration(text));
        }
    }
}
