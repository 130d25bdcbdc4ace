import { existsSync } from "node:fs";
import { dirname, join } from "node:path";

/** Returns the root of the repository, from any directory in it. */
export function repository(): string {
  let folder = process.cwd();
  while (!existsSync(join(folder, "clients", "conformance"))) {
    if (folder === dirname(folder)) throw new Error("run the tests inside the repository");
    folder = dirname(folder);
  }
  return folder;
}
