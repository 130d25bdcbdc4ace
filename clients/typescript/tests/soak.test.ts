/**
 * Kills servers and workers while jobs are put and handled, and checks that nothing is lost.
 * `TICKWHEEL_SOAK_SECONDS` sets for how long (3 by default, the short form).
 */

import assert from "node:assert/strict";
import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { Server } from "../src/testing.js";

const seconds = Number(process.env["TICKWHEEL_SOAK_SECONDS"] ?? "3");
const program = join(dirname(fileURLToPath(import.meta.url)), "soak_worker.js");

async function end(worker: ChildProcess, signal: NodeJS.Signals): Promise<void> {
  const ended = once(worker, "exit");
  worker.kill(signal);
  if (worker.exitCode === null && worker.signalCode === null) await ended;
}

test("nothing is lost when servers and workers are killed", { timeout: (seconds + 120) * 1000 }, async () => {
  const server = await Server.start({ manualClock: false });
  const folder = mkdtempSync(join(tmpdir(), "tickwheel-soak-"));
  const put: number[] = [];
  let isOver = false;
  let started = 0;
  const produce = async (first: number) => {
    const client = server.client({ retryFor: 60_000 });
    for (let n = first; !isOver; n++) {
      await client.put("soak", n, { max_attempts: 1000, delay: n % 50 });
      put.push(n);
      await delay(5);
    }
  };
  const work = () => spawn(process.execPath, [program, server.url, join(folder, String(started++))], { stdio: "ignore" });
  const workers = [work(), work()];
  try {
    const producers = [0, 1, 2, 3].map((n) => produce(n * 1_000_000));
    const until = performance.now() + seconds * 1000;
    for (let kills = 0; performance.now() < until || kills < 2; kills++) {
      await delay(200 + Math.random() * 400);
      await end(workers.shift()!, Math.random() < 0.5 ? "SIGKILL" : "SIGTERM");
      workers.push(work());
      if (kills === 0 || Math.random() < 0.5) {
        await server.kill();
        await server.startAgain();
      }
    }
    isOver = true;
    await Promise.all(producers);
    const client = server.client();
    for (;;) {
      const { scheduled, ready, leased, dead } = (await client.queue("soak")).jobs;
      assert.equal(dead, 0);
      if (scheduled + ready + leased === 0) break;
      await delay(50);
    }
    assert(put.length > 20);
    const lines = readdirSync(folder).flatMap((file) => readFileSync(join(folder, file), "utf8").split("\n"));
    const handled = new Set(lines.filter((line) => line !== "").map(Number));
    assert.deepEqual(put.filter((n) => !handled.has(n)), [], "jobs were put and never handled");
  } finally {
    isOver = true;
    for (const worker of workers) worker.kill("SIGKILL");
    await server.close();
    rmSync(folder, { recursive: true, force: true });
  }
});
