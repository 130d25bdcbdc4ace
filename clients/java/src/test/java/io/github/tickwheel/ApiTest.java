package io.github.tickwheel;

import static io.github.tickwheel.TestMain.check;
import static io.github.tickwheel.TestMain.equal;

import io.github.tickwheel.TestMain.Test;
import java.lang.reflect.Method;
import java.nio.file.Files;
import java.util.Arrays;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import javax.xml.parsers.DocumentBuilderFactory;
import org.w3c.dom.Document;

/** The library is complete, and its manifest is that of this version. */
final class ApiTest {
    private ApiTest() {}

    @Test
    static void everyOperationOfTheApiHasAMethod() throws Exception {
        Set<String> methods = Arrays.stream(Client.class.getMethods()).map(Method::getName).collect(Collectors.toSet());
        Map<?, ?> operations = (Map<?, ?>) Json.parse(Files.readString(Repository.path("clients/operations.json")));
        Set<String> missing = new TreeSet<>();
        ((Map<?, ?>) operations.get("operations")).forEach((operation, languages) -> {
            String method = (String) ((Map<?, ?>) languages).get("java");
            if (method == null || !methods.contains(method)) {
                missing.add(operation + " -> " + method);
            }
        });
        equal(Set.of(), missing);
    }

    @Test
    static void theManifestHasTheVersionOfTheWorkspace() throws Exception {
        Document manifest = DocumentBuilderFactory.newInstance().newDocumentBuilder()
                .parse(Repository.path("clients/java/pom.xml").toFile());
        Matcher workspace = Pattern.compile("(?m)^version = \"([^\"]+)\"").matcher(Files.readString(Repository.path("Cargo.toml")));
        check(workspace.find(), "the workspace has a version");
        equal(workspace.group(1), manifest.getDocumentElement().getElementsByTagName("version").item(0).getTextContent());
        for (String required : new String[] {"groupId", "artifactId", "name", "description", "url", "licenses", "developers", "scm"}) {
            check(manifest.getElementsByTagName(required).getLength() > 0, "the manifest has no " + required);
        }
    }
}
