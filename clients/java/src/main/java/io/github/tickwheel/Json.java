package io.github.tickwheel;

import java.math.BigDecimal;
import java.math.BigInteger;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * A small reader and writer of JSON.
 *
 * <p>A JSON value is a {@code Map<String, Object>}, a {@code List<Object>}, a {@code String}, a
 * {@code Long}, {@code BigInteger}, {@code Double} or {@code BigDecimal}, a {@code Boolean}, or
 * {@code null}. Payloads that another library encodes go through {@link #parse}:
 *
 * <pre>{@code NewJob.of("orders", Json.parse(mapper.writeValueAsString(order)))}</pre>
 */
public final class Json {
    /** The deepest nesting that is read. */
    private static final int MAX_DEPTH = 512;

    private final String text;
    private int at;
    private int depth;

    private Json(String text) {
        this.text = text;
    }

    /**
     * Returns the value of a JSON text.
     *
     * @param text the text, which holds exactly one value
     * @return the value
     * @throws IllegalArgumentException if the text is not JSON, or nested deeper than 512 levels
     */
    public static Object parse(String text) {
        Json reader = new Json(text);
        Object value = reader.value();
        reader.skipSpace();
        if (reader.at < text.length()) {
            throw reader.error("expected the end");
        }
        return value;
    }

    /**
     * Returns the JSON text of a value.
     *
     * @param value a JSON value as described above, or a record, enum, array of bytes, {@code
     *     Instant}, {@code Duration}, {@code Collection} or {@code Map} of such values
     * @return the text, without white space
     * @throws IllegalArgumentException if the value has no form in JSON
     */
    public static String write(Object value) {
        StringBuilder out = new StringBuilder();
        append(out, Wire.write(value));
        return out.toString();
    }

    private static void append(StringBuilder out, Object value) {
        if (value instanceof String string) {
            appendString(out, string);
        } else if (value instanceof Map<?, ?> map) {
            String separator = "{";
            for (Map.Entry<?, ?> entry : map.entrySet()) {
                out.append(separator);
                appendString(out, (String) entry.getKey());
                out.append(':');
                append(out, entry.getValue());
                separator = ",";
            }
            out.append(map.isEmpty() ? "{}" : "}");
        } else if (value instanceof List<?> list) {
            out.append('[');
            for (int i = 0; i < list.size(); i++) {
                out.append(i == 0 ? "" : ",");
                append(out, list.get(i));
            }
            out.append(']');
        } else {
            out.append(value);
        }
    }

    private static void appendString(StringBuilder out, String string) {
        out.append('"');
        for (int i = 0; i < string.length(); i++) {
            char c = string.charAt(i);
            switch (c) {
                case '"' -> out.append("\\\"");
                case '\\' -> out.append("\\\\");
                case '\n' -> out.append("\\n");
                case '\r' -> out.append("\\r");
                case '\t' -> out.append("\\t");
                default -> {
                    if (c < 0x20 || isLoneSurrogate(string, i)) {
                        out.append(String.format("\\u%04x", (int) c));
                    } else {
                        out.append(c);
                    }
                }
            }
        }
        out.append('"');
    }

    /** Half a character cannot be encoded as UTF-8; an escape keeps it. */
    private static boolean isLoneSurrogate(String string, int i) {
        char c = string.charAt(i);
        if (Character.isHighSurrogate(c)) {
            return i + 1 == string.length() || !Character.isLowSurrogate(string.charAt(i + 1));
        }
        return Character.isLowSurrogate(c) && (i == 0 || !Character.isHighSurrogate(string.charAt(i - 1)));
    }

    private IllegalArgumentException error(String problem) {
        return new IllegalArgumentException("not JSON: " + problem + " at character " + at);
    }

    private void skipSpace() {
        while (at < text.length() && " \t\r\n".indexOf(text.charAt(at)) >= 0) {
            at++;
        }
    }

    private char peek() {
        if (at == text.length()) {
            throw error("the text ends too early");
        }
        return text.charAt(at);
    }

    private void expect(char c) {
        if (peek() != c) {
            throw error("expected '" + c + "'");
        }
        at++;
    }

    private Object value() {
        skipSpace();
        char c = peek();
        return switch (c) {
            case '{' -> object();
            case '[' -> array();
            case '"' -> string();
            case 't' -> word("true", Boolean.TRUE);
            case 'f' -> word("false", Boolean.FALSE);
            case 'n' -> word("null", null);
            default -> number();
        };
    }

    private Object word(String word, Object value) {
        if (!text.startsWith(word, at)) {
            throw error("expected " + word);
        }
        at += word.length();
        return value;
    }

    private void enter() {
        at++;
        if (++depth > MAX_DEPTH) {
            throw error("more than " + MAX_DEPTH + " levels");
        }
    }

    /** Reads the separator after an item, and returns whether another item follows. */
    private boolean another(char end) {
        skipSpace();
        if (peek() == ',') {
            at++;
            return true;
        }
        expect(end);
        depth--;
        return false;
    }

    /** Returns whether the object or array that was just entered is empty, and leaves it if so. */
    private boolean isEmpty(char end) {
        skipSpace();
        if (peek() != end) {
            return false;
        }
        at++;
        depth--;
        return true;
    }

    private Map<String, Object> object() {
        Map<String, Object> members = new LinkedHashMap<>();
        enter();
        if (isEmpty('}')) {
            return members;
        }
        do {
            skipSpace();
            String name = string();
            skipSpace();
            expect(':');
            members.put(name, value());
        } while (another('}'));
        return members;
    }

    private List<Object> array() {
        List<Object> items = new ArrayList<>();
        enter();
        if (isEmpty(']')) {
            return items;
        }
        do {
            items.add(value());
        } while (another(']'));
        return items;
    }

    private String string() {
        expect('"');
        StringBuilder out = new StringBuilder();
        while (true) {
            char c = peek();
            at++;
            if (c == '"') {
                return out.toString();
            } else if (c == '\\') {
                out.append(escape());
            } else if (c < 0x20) {
                throw error("a control character in a string");
            } else {
                out.append(c);
            }
        }
    }

    private char escape() {
        char c = peek();
        at++;
        return switch (c) {
            case '"', '\\', '/' -> c;
            case 'b' -> '\b';
            case 'f' -> '\f';
            case 'n' -> '\n';
            case 'r' -> '\r';
            case 't' -> '\t';
            case 'u' -> hex();
            default -> throw error("an unknown escape");
        };
    }

    private char hex() {
        int code = 0;
        for (int i = 0; i < 4; i++) {
            int digit = Character.digit(peek(), 16);
            if (digit < 0) {
                throw error("expected four hexadecimal digits");
            }
            code = code * 16 + digit;
            at++;
        }
        return (char) code;
    }

    private Object number() {
        int start = at;
        boolean isInteger = true;
        while (at < text.length() && "+-.eE0123456789".indexOf(text.charAt(at)) >= 0) {
            isInteger &= "+.eE".indexOf(text.charAt(at)) < 0;
            at++;
        }
        String digits = text.substring(start, at);
        if (!digits.matches("-?(0|[1-9][0-9]*)(\\.[0-9]+)?([eE][+-]?[0-9]+)?")) {
            at = start;
            throw error("expected a value");
        }
        if (isInteger) {
            return digits.length() < 19 ? (Object) Long.valueOf(digits) : shortest(new BigInteger(digits));
        }
        BigDecimal exact = new BigDecimal(digits);
        double nearest = exact.doubleValue();
        boolean isExact = Double.isFinite(nearest) && new BigDecimal(Double.toString(nearest)).compareTo(exact) == 0;
        return isExact ? (Object) nearest : exact;
    }

    private static Object shortest(BigInteger number) {
        return number.bitLength() < 64 ? (Object) number.longValue() : number;
    }
}
