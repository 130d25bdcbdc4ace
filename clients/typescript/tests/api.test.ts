/** The client has a method for every operation of the API. */

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { Client } from "../src/index.js";
import { repository } from "./repository.js";

test("every operation has a method", () => {
  const file = readFileSync(join(repository(), "clients", "operations.json"), "utf8");
  const { operations } = JSON.parse(file) as { operations: Record<string, Record<string, string>> };
  assert(Object.keys(operations).length > 50);
  const client = new Client() as unknown as Record<string, unknown>;
  for (const [operation, languages] of Object.entries(operations)) {
    assert.equal(typeof client[languages["typescript"] ?? ""], "function", operation);
  }
});
