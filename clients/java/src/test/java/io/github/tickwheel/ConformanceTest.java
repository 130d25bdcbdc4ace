package io.github.tickwheel;

import static io.github.tickwheel.TestMain.check;
import static io.github.tickwheel.TestMain.equal;

import io.github.tickwheel.TestMain.Case;
import io.github.tickwheel.TestMain.Test;
import io.github.tickwheel.testing.Fake;
import io.github.tickwheel.testing.Server;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.stream.Stream;

/** The runner of clients/conformance; its README describes the format of scenarios. */
final class ConformanceTest {
    /** The scenarios that need nothing that the fake does not have. */
    private static final Set<String> ON_THE_FAKE = Set.of("order_timeout", "keys", "concurrent_puts", "worker_trace");
    private static final Set<String> MEMBERS = Set.of("do", "with", "expect", "error", "save");

    private ConformanceTest() {}

    @Test
    static List<Case> scenarios() throws Exception {
        List<Case> cases = new ArrayList<>();
        try (Stream<Path> files = Files.list(Repository.path("clients/conformance"))) {
            for (Path file : files.filter(path -> path.toString().endsWith(".json")).sorted().toList()) {
                String name = file.getFileName().toString().replace(".json", "");
                Map<?, ?> scenario = (Map<?, ?>) Json.parse(Files.readString(file));
                check(Set.of("about", "serve", "steps").containsAll(scenario.keySet()), file + " has an unknown member");
                cases.add(new Case(name, () -> onServer(scenario)));
                if (ON_THE_FAKE.contains(name)) {
                    cases.add(new Case(name + " on the fake", () -> steps(scenario, new Operations(new Fake().client(), null))));
                }
            }
        }
        check(cases.size() > 20, "only " + cases.size() + " scenarios were found");
        return cases;
    }

    private static void onServer(Map<?, ?> scenario) throws Exception {
        List<String> serve = new ArrayList<>();
        if (scenario.get("serve") instanceof List<?> arguments) {
            arguments.forEach(argument -> serve.add((String) argument));
        }
        try (Server server = Server.start(serve.toArray(String[]::new));
                Operations operations = new Operations(server.client(), server)) {
            steps(scenario, operations);
        }
    }

    private static void steps(Map<?, ?> scenario, Operations operations) throws Exception {
        Map<String, Object> variables = new LinkedHashMap<>();
        if (operations.server() != null) {
            variables.put("server", operations.server().url());
        }
        int number = 0;
        for (Object entry : (List<?>) scenario.get("steps")) {
            Map<?, ?> step = (Map<?, ?>) entry;
            number++;
            try {
                check(MEMBERS.containsAll(step.keySet()), "unknown member in " + step.keySet());
                perform(step, operations, variables);
            } catch (Exception | AssertionError error) {
                throw new AssertionError("step " + number + ", " + step.get("do") + ": " + error.getMessage(), error);
            }
        }
    }

    private static void perform(Map<?, ?> step, Operations operations, Map<String, Object> variables) throws Exception {
        @SuppressWarnings("unchecked")
        Map<String, Object> with =
                (Map<String, Object>) Matching.substitute(step.containsKey("with") ? step.get("with") : Map.of(), variables);
        Object answer;
        try {
            // Through the text, so that the answer has the types of JSON.
            answer = Json.parse(Json.write(operations.perform((String) step.get("do"), with)));
        } catch (ProblemException problem) {
            if (!step.containsKey("error")) {
                throw problem;
            }
            Matching.match(Matching.substitute(step.get("error"), variables), Json.parse(Json.write(problem.problem())), "error");
            return;
        }
        check(!step.containsKey("error"), "expected a problem, got " + answer);
        if (step.containsKey("expect")) {
            Matching.match(Matching.substitute(step.get("expect"), variables), answer, "");
        }
        if (step.get("save") instanceof Map<?, ?> save) {
            save.forEach((name, pointer) -> {
                Object value = Matching.resolve(answer, (String) pointer);
                check(value != null, "no value at " + pointer);
                variables.put((String) name, value);
            });
        }
    }

    @Test
    static void theMatcherCanFail() {
        Matching.match(Json.parse("{\"a\":[1,{\"$any\":true}]}"), Json.parse("{\"a\":[1.0,2],\"b\":3}"), "");
        for (String[] pair : new String[][] {
            {"{\"a\":1}", "{\"a\":2}"}, {"[1]", "[1,2]"}, {"{\"$absent\":true}", "1"}, {"{\"$any\":true}", "null"},
            {"{\"$exact\":{\"a\":1}}", "{\"a\":1,\"b\":2}"}, {"{\"$contains\":\"x\"}", "\"y\""},
            {"{\"$duration\":\"1m\"}", "61000"}, {"{\"$between\":[1,2]}", "3"}, {"{\"$not\":1}", "1"}, {"true", "false"},
        }) {
            TestMain.thrown(AssertionError.class, () -> Matching.match(Json.parse(pair[0]), Json.parse(pair[1]), ""));
        }
        equal("a-7", Matching.substitute("a-${n}", Map.of("n", 7L)));
    }
}
