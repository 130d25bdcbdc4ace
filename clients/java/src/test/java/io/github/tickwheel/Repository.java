package io.github.tickwheel;

import java.nio.file.Files;
import java.nio.file.Path;

/** The files of the repository that tests read. */
final class Repository {
    private Repository() {}

    /** Returns a path, given from the root of the repository. */
    static Path path(String path) {
        Path root = Path.of("").toAbsolutePath();
        while (!Files.isDirectory(root.resolve("clients/conformance"))) {
            root = root.getParent();
            TestMain.check(root != null, "run the tests inside the repository");
        }
        return root.resolve(path);
    }
}
