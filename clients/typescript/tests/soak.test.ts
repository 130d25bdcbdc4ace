/**
 * Kills servers and stops workers while jobs are put and handled, and checks that nothing is lost.
 * `TICKWHEEL_SOAK_SECONDS` sets for how long (3 by default, the short form).
 */

import assert from "node:assert/strict";
import { setTimeout as delay } from "node:timers/promises";
import { test } from "node:test";
import { Worker } from "../src/index.js";
import { Server } from "../src/testing.js";

const seconds = Number(process.env["TICKWHEEL_SOAK_SECONDS"] ?? "3");

test("nothing is lost when servers are killed and workers stop", { timeout: (seconds + 120) * 1000 }, async () => {
  const server = await Server.start({ manualClock: false });
  const handled = new Set<unknown>();
  const put: number[] = [];
  let isOver = false;
  const produce = async (first: number) => {
    const client = server.client({ retryFor: 60_000 });
    for (let n = first; !isOver; n++) {
      await client.put("soak", n, { max_attempts: 1000, delay: n % 50 });
      put.push(n);
      await delay(5);
    }
  };
  const work = () => {
    const worker = new Worker(server.client(), { concurrency: 4, prefetch: 4, lease: "1s", log: () => {} });
    worker.handle("soak", (job) => void handled.add(job.payload));
    return { worker, running: worker.run() };
  };
  try {
    const producers = [0, 1, 2, 3].map((n) => produce(n * 1_000_000));
    let workers = [work(), work()];
    const end = performance.now() + seconds * 1000;
    for (let kills = 0; performance.now() < end || kills < 2; kills++) {
      await delay(200 + Math.random() * 400);
      const { worker, running } = workers.shift()!;
      worker.stop();
      workers.push(work());
      await server.kill();
      await server.startAgain();
      await running;
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
    for (const { worker } of workers) worker.stop();
    await Promise.all(workers.map((it) => it.running));
    assert(put.length > 20);
    assert.deepEqual(put.filter((n) => !handled.has(n)), [], "jobs were put and never handled");
  } finally {
    isOver = true;
    await server.close();
  }
});
