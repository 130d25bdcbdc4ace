package io.github.tickwheel;

import java.lang.reflect.Constructor;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.ParameterizedType;
import java.lang.reflect.RecordComponent;
import java.lang.reflect.Type;
import java.math.BigDecimal;
import java.math.BigInteger;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Base64;
import java.util.Collection;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * Converts between JSON values and typed ones.
 *
 * <p>Records of the API ({@link WireType}) have members in snake case: a {@code Duration} is a
 * number of milliseconds, and an {@code Instant} {@code due} is the member {@code due_ms}. Records of
 * the user keep their names, and times are text of ISO 8601. Components that are {@code null} are
 * left out; members that a record does not have are ignored.
 */
final class Wire {
    private static final Pattern PART = Pattern.compile("\\s*([0-9]+)(ms|s|m|h|d|w)");
    private static final Map<String, Long> UNITS = Map.of(
            "ms", 1L, "s", 1_000L, "m", 60_000L, "h", 3_600_000L, "d", 86_400_000L, "w", 604_800_000L);

    private Wire() {}

    /** Returns the JSON value of a typed one. */
    static Object write(Object value) {
        return write(value, false);
    }

    private static Object write(Object value, boolean isApi) {
        if (value == null) {
            return null;
        } else if (value instanceof String || value instanceof Boolean || value instanceof BigInteger
                || value instanceof BigDecimal || value instanceof Long) {
            return value;
        } else if (value instanceof Double || value instanceof Float) {
            if (!Double.isFinite(((Number) value).doubleValue())) {
                throw new IllegalArgumentException("cannot encode " + value + " as JSON");
            }
            return ((Number) value).doubleValue();
        } else if (value instanceof Number number) {
            return number.longValue();
        } else if (value instanceof Character character) {
            return character.toString();
        } else if (value instanceof Duration duration) {
            return isApi ? (Object) millis(duration) : duration.toString();
        } else if (value instanceof Instant instant) {
            return isApi ? (Object) instant.toEpochMilli() : instant.toString();
        } else if (value instanceof Enum<?> constant) {
            return constant instanceof WireType ? wireName(constant) : constant.name();
        } else if (value instanceof byte[] bytes) {
            return Base64.getEncoder().encodeToString(bytes);
        } else if (value instanceof Map<?, ?> map) {
            Map<String, Object> members = new LinkedHashMap<>();
            map.forEach((name, member) -> members.put(String.valueOf(name), write(member, isApi)));
            return members;
        } else if (value instanceof Collection<?> items) {
            List<Object> list = new ArrayList<>(items.size());
            items.forEach(item -> list.add(write(item, isApi)));
            return list;
        } else if (value instanceof Object[] items) {
            return write(Arrays.asList(items), isApi);
        } else if (value instanceof Record record) {
            return members(record);
        }
        throw new IllegalArgumentException("cannot encode " + value.getClass().getName()
                + " as JSON: use a record, Map, List, String, number, boolean, or a value of Json.parse");
    }

    /** Returns the members of a record. */
    static Map<String, Object> members(Record record) {
        boolean isApi = record instanceof WireType;
        Map<String, Object> members = new LinkedHashMap<>();
        for (RecordComponent component : record.getClass().getRecordComponents()) {
            Object value = get(record, component);
            // The payload of a job belongs to the user, whatever record it is in.
            boolean isTyped = isApi && component.getType() != Object.class;
            if (value != null) {
                members.put(name(component, isApi), write(value, isTyped));
            }
        }
        return members;
    }

    private static Object get(Record record, RecordComponent component) {
        try {
            component.getAccessor().setAccessible(true);
            return component.getAccessor().invoke(record);
        } catch (ReflectiveOperationException error) {
            throw new IllegalArgumentException("cannot read " + component + " of " + record.getClass().getName(), error);
        }
    }

    private static String name(RecordComponent component, boolean isApi) {
        if (!isApi) {
            return component.getName();
        }
        String snake = component.getName().replaceAll("([A-Z])", "_$1").toLowerCase(Locale.ROOT);
        return component.getType() == Instant.class ? snake + "_ms" : snake;
    }

    private static String wireName(Enum<?> constant) {
        return constant.name().toLowerCase(Locale.ROOT).replace('_', '-');
    }

    /** Returns the duration in milliseconds, rounded away from zero: nothing is due too early. */
    static long millis(Duration duration) {
        return duration.isNegative() ? -millis(duration.negated()) : duration.plusNanos(999_999).toMillis();
    }

    /** Returns a copy of the record with another value of one component. */
    static <R extends Record> R with(R record, String name, Object value) {
        RecordComponent[] components = record.getClass().getRecordComponents();
        Object[] values = new Object[components.length];
        for (int i = 0; i < components.length; i++) {
            values[i] = components[i].getName().equals(name) ? value : get(record, components[i]);
        }
        @SuppressWarnings("unchecked")
        Class<R> type = (Class<R>) record.getClass();
        return make(type, components, values);
    }

    private static <R> R make(Class<R> type, RecordComponent[] components, Object[] values) {
        Class<?>[] types = Arrays.stream(components).map(RecordComponent::getType).toArray(Class<?>[]::new);
        try {
            Constructor<R> constructor = type.getDeclaredConstructor(types);
            constructor.setAccessible(true);
            return constructor.newInstance(values);
        } catch (InvocationTargetException error) {
            throw new IllegalArgumentException("cannot make a " + type.getName() + ": " + error.getCause(), error.getCause());
        } catch (ReflectiveOperationException error) {
            throw new IllegalArgumentException("cannot make a " + type.getName(), error);
        }
    }

    /** Returns the typed value of a JSON value. */
    static <T> T read(Object value, Class<T> type) {
        @SuppressWarnings("unchecked")
        T typed = (T) read(value, (Type) type);
        return typed;
    }

    static Object read(Object value, Type type) {
        if (type instanceof ParameterizedType generic) {
            return readGeneric(value, generic);
        }
        Class<?> plain = (Class<?>) type;
        if (value == null) {
            return plain.isPrimitive() ? absent(plain) : null;
        } else if (plain == Object.class) {
            return value;
        } else if (plain.isRecord()) {
            return record(value, plain);
        } else if (plain.isEnum()) {
            return constant((String) value, plain);
        } else if (plain == Duration.class) {
            return duration(value);
        } else if (plain == Instant.class) {
            return value instanceof Number ms ? Instant.ofEpochMilli(ms.longValue()) : Instant.parse((String) value);
        } else if (plain == byte[].class) {
            return Base64.getDecoder().decode((String) value);
        } else if (value instanceof Number number) {
            return number(number, plain);
        } else if (plain.isInstance(value) || plain == boolean.class && value instanceof Boolean) {
            return value;
        }
        throw new IllegalArgumentException("expected a " + plain.getSimpleName() + ", got " + Json.write(value));
    }

    private static Object readGeneric(Object value, ParameterizedType type) {
        Type[] arguments = type.getActualTypeArguments();
        if (value instanceof List<?> list && type.getRawType() == List.class) {
            List<Object> items = new ArrayList<>(list.size());
            list.forEach(item -> items.add(read(item, arguments[0])));
            return items;
        } else if (value instanceof Map<?, ?> map && type.getRawType() == Map.class) {
            Map<String, Object> members = new LinkedHashMap<>();
            map.forEach((name, member) -> members.put((String) name, read(member, arguments[1])));
            return members;
        } else if (value == null) {
            return null;
        }
        throw new IllegalArgumentException("expected a " + type + ", got " + Json.write(value));
    }

    private static Object record(Object value, Class<?> type) {
        if (!(value instanceof Map<?, ?> members)) {
            throw new IllegalArgumentException("expected an object for " + type.getSimpleName() + ", got " + Json.write(value));
        }
        boolean isApi = WireType.class.isAssignableFrom(type);
        RecordComponent[] components = type.getRecordComponents();
        Object[] values = new Object[components.length];
        for (int i = 0; i < components.length; i++) {
            values[i] = read(members.get(name(components[i], isApi)), components[i].getGenericType());
        }
        return make(type, components, values);
    }

    /** Returns the constant, or null for one that a newer server has. */
    private static Object constant(String name, Class<?> type) {
        boolean isApi = WireType.class.isAssignableFrom(type);
        for (Object constant : type.getEnumConstants()) {
            Enum<?> known = (Enum<?>) constant;
            if ((isApi ? wireName(known) : known.name()).equals(name)) {
                return constant;
            }
        }
        if (isApi) {
            return null;
        }
        throw new IllegalArgumentException(type.getSimpleName() + " has no constant " + name);
    }

    private static Object number(Number number, Class<?> type) {
        if (type == double.class || type == Double.class) {
            return number.doubleValue();
        } else if (type == BigDecimal.class) {
            return new BigDecimal(number.toString());
        } else if (type == BigInteger.class) {
            return new BigInteger(number.toString());
        } else if (type == Number.class) {
            return number;
        }
        long whole = new BigDecimal(number.toString()).longValueExact();
        if (type == int.class || type == Integer.class) {
            return Math.toIntExact(whole);
        } else if (type == long.class || type == Long.class) {
            return whole;
        }
        throw new IllegalArgumentException("expected a " + type.getSimpleName() + ", got " + number);
    }

    private static Object absent(Class<?> type) {
        if (type == boolean.class) {
            return false;
        }
        return number(0, type);
    }

    /** Returns a duration of milliseconds, of text such as "1h30m", or of ISO 8601. */
    static Duration duration(Object value) {
        if (value instanceof Number number) {
            return Duration.ofMillis(new BigDecimal(number.toString()).longValue());
        }
        String text = (String) value;
        if (text.startsWith("P")) {
            return Duration.parse(text);
        }
        Matcher parts = PART.matcher(text);
        long sum = 0;
        int end = 0;
        while (end < text.length()) {
            if (!parts.find(end) || parts.start() != end) {
                throw new IllegalArgumentException("\"" + text
                        + "\" is not a duration: write milliseconds, or numbers with the units ms, s, m, h, d, w");
            }
            sum += Long.parseLong(parts.group(1)) * UNITS.get(parts.group(2));
            end = parts.end();
        }
        return Duration.ofMillis(sum);
    }
}
