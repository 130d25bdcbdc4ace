package io.github.tickwheel;

import java.math.BigDecimal;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** Variables and expectations of scenarios. */
final class Matching {
    private static final Pattern VARIABLE = Pattern.compile("\\$\\{([^}]*)\\}");

    private Matching() {}

    private static BigDecimal number(Object value) {
        return new BigDecimal(value.toString());
    }

    /** Replaces variables and sums. */
    static Object substitute(Object value, Map<String, Object> variables) {
        if (value instanceof String text) {
            return substituteText(text, variables);
        } else if (value instanceof List<?> list) {
            List<Object> items = new ArrayList<>();
            list.forEach(item -> items.add(substitute(item, variables)));
            return items;
        } else if (value instanceof Map<?, ?> map) {
            if (map.get("$sum") instanceof List<?> terms) {
                return terms.stream().map(term -> number(substitute(term, variables))).reduce(BigDecimal.ZERO, BigDecimal::add);
            }
            Map<String, Object> members = new LinkedHashMap<>();
            map.forEach((name, member) -> members.put((String) name, substitute(member, variables)));
            return members;
        }
        return value;
    }

    private static Object substituteText(String text, Map<String, Object> variables) {
        Matcher found = VARIABLE.matcher(text);
        StringBuilder out = new StringBuilder();
        while (found.find()) {
            Object value = variables.get(found.group(1));
            TestMain.check(value != null, "unknown variable " + found.group(1));
            if (found.group().equals(text)) {
                return value;
            }
            found.appendReplacement(out, Matcher.quoteReplacement(value.toString()));
        }
        return found.appendTail(out).toString();
    }

    /** Returns the value at a JSON pointer, or null. */
    static Object resolve(Object value, String pointer) {
        Object found = value;
        for (String part : pointer.substring(1).split("/")) {
            if (found instanceof Map<?, ?> map) {
                found = map.get(part);
            } else if (found instanceof List<?> list && Integer.parseInt(part) < list.size()) {
                found = list.get(Integer.parseInt(part));
            } else {
                return null;
            }
        }
        return found;
    }

    /** Fails unless the answer is as expected. */
    static void match(Object expected, Object answer, String at) {
        if (!matches(expected, answer)) {
            // The first member that differs says more than the whole.
            if (expected instanceof Map<?, ?> map && answer instanceof Map<?, ?> members && map.keySet().stream().noneMatch(Matching::isOperator)) {
                map.forEach((name, member) -> match(member, members.get(name), at + "/" + name));
            } else if (expected instanceof List<?> list && answer instanceof List<?> items && list.size() == items.size()) {
                for (int i = 0; i < list.size(); i++) {
                    match(list.get(i), items.get(i), at + "/" + i);
                }
            }
            throw new AssertionError("at \"" + at + "\": expected " + expected + ", got " + answer);
        }
    }

    private static boolean isOperator(Object name) {
        return name.toString().startsWith("$");
    }

    private static boolean matches(Object expected, Object answer) {
        if (expected instanceof Map<?, ?> map) {
            for (Map.Entry<?, ?> entry : map.entrySet()) {
                if (isOperator(entry.getKey())) {
                    return satisfies((String) entry.getKey(), entry.getValue(), answer);
                }
            }
            return answer instanceof Map<?, ?> members
                    && map.entrySet().stream().allMatch(entry -> matches(entry.getValue(), members.get(entry.getKey())));
        } else if (expected instanceof List<?> list) {
            if (!(answer instanceof List<?> items) || items.size() != list.size()) {
                return false;
            }
            for (int i = 0; i < list.size(); i++) {
                if (!matches(list.get(i), items.get(i))) {
                    return false;
                }
            }
            return true;
        } else if (expected instanceof Number) {
            return answer instanceof Number && number(expected).compareTo(number(answer)) == 0;
        }
        return Objects.equals(expected, answer);
    }

    private static boolean satisfies(String operator, Object operand, Object answer) {
        return switch (operator) {
            case "$any" -> answer != null;
            case "$absent" -> answer == null;
            case "$exact" -> matches(operand, answer) && matches(answer, operand);
            case "$contains" -> answer instanceof String text && text.contains((String) operand);
            case "$duration" -> answer != null && Wire.duration(operand).equals(Wire.duration(answer));
            case "$between" -> {
                List<?> bounds = (List<?>) operand;
                yield answer instanceof Number && number(bounds.get(0)).compareTo(number(answer)) <= 0
                        && number(answer).compareTo(number(bounds.get(1))) <= 0;
            }
            case "$not" -> !matches(operand, answer);
            default -> throw new AssertionError("unknown operator " + operator);
        };
    }
}
