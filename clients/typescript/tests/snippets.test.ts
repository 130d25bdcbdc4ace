/**
 * Compiles and runs every TypeScript snippet of the README and of the pages in docs/clients, as a user
 * of the package would. `TICKWHEEL_TSC` is the path of the compiler.
 */

import assert from "node:assert/strict";
import { spawn, spawnSync } from "node:child_process";
import { mkdirSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { Server } from "../src/testing.js";
import { repository } from "./repository.js";

const root = repository();
const compiled = join(dirname(fileURLToPath(import.meta.url)), "..");
const folder = join(compiled, "snippets");

function snippets(): { name: string; code: string }[] {
  const docs = join(root, "docs", "clients");
  const pages = [join(root, "clients", "typescript", "README.md"), ...readdirSync(docs).map((it) => join(docs, it))];
  return pages.filter((page) => page.endsWith(".md")).flatMap((page, index) => {
    const found = [...readFileSync(page, "utf8").matchAll(/^```ts\n(.*?)^```/gms)];
    return found.map(([, code], number) => ({ name: `page${index}_snippet${number + 1}`, code: `${code}\nexport {};\n` }));
  });
}

test("every snippet compiles and runs", { timeout: 180_000 }, async () => {
  const all = snippets();
  assert(all.length > 5);
  rmSync(folder, { recursive: true, force: true });
  const installed = join(folder, "node_modules", "tickwheel");
  mkdirSync(installed, { recursive: true });
  writeFileSync(join(installed, "package.json"), readFileSync(join(root, "clients/typescript/package.json")));
  symlinkSync(join(compiled, "src"), join(installed, "dist"));
  writeFileSync(join(folder, "package.json"), '{"type": "module"}');
  all.forEach(({ name, code }) => writeFileSync(join(folder, `${name}.ts`), code));
  const tsc = process.env["TICKWHEEL_TSC"]!;
  const types = join(dirname(tsc), "..", "..", "@types");
  const options = ["--strict", "--target", "es2022", "--module", "nodenext", "--typeRoots", types, "--types", "node"];
  const files = all.map(({ name }) => join(folder, `${name}.ts`));
  const check = spawnSync(process.execPath, [tsc, ...options, ...files], { encoding: "utf8" });
  assert.equal(check.status, 0, check.stdout + check.stderr);
  for (const { name, code } of all) await run(name, code);
});

async function run(name: string, code: string): Promise<void> {
  const server = await Server.start({ manualClock: false });
  try {
    const runsForEver = code.includes("worker.run({ signals: true })");
    if (runsForEver) await server.client().put("orders", { order: 42 });
    const file = join(folder, `${name}.js`);
    writeFileSync(file, readFileSync(file, "utf8").replaceAll("http://127.0.0.1:7300", server.url));
    const child = spawn(process.execPath, [file], { env: { ...process.env, TICKWHEEL_URL: server.url } });
    let output = "";
    const read = (chunk: Buffer) => {
      output += chunk;
      if (runsForEver && output.includes("closing order 42")) child.kill("SIGTERM");
    };
    child.stdout.on("data", read);
    child.stderr.on("data", read);
    const status = await new Promise((resolve) => child.on("close", resolve));
    assert.equal(status, 0, `${name}:\n${code}\n${output}`);
    if (runsForEver) assert.equal((await server.client().queue("orders")).jobs.leased, 0);
  } finally {
    await server.close();
  }
}
