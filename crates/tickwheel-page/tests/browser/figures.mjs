// The figures of docs/PAGE.md: `cargo xtask browser --figures` measures them with a release build, and
// with a name only one part of them, for a machine that is not idle for long.
//
// CPU time is that of the server's process, as the kernel counts it. What is compared is measured in
// turns, so that a machine that becomes busier does not favour one side.

import { spawn } from "node:child_process";
import { readFileSync } from "node:fs";
import { availableParallelism } from "node:os";

import { BINARY, Browser, discard, liveState, run, Server } from "./rig.mjs";

const JOBS_PER_SECOND = 10_000;
const PAGES = 5;
const ROUNDS = 3;
const ROUND_SECONDS = 10;
const PENDING = 1_000_000;
const LOADS = 5;
/** Ticks in a second of the times in /proc, on every Linux. */
const TICKS = 100;

const sleep = (seconds) => new Promise((resolve) => { setTimeout(resolve, seconds * 1000); });
const mean = (numbers) => numbers.reduce((sum, number) => sum + number, 0) / numbers.length;
const spread = (numbers) => Math.max(...numbers) - Math.min(...numbers);
const percent = (share) => `${(100 * share).toFixed(1)} %`;

function show(name, figure, goal, isMet) {
  const verdict = goal ? `   goal: ${goal}: ${isMet ? "met" : "MISSED"}` : "";
  console.log(`  ${name.padEnd(52)} ${figure.padStart(14)}${verdict}`);
}

/** The CPU time of the server so far, in seconds. */
function cpuTime(server) {
  const line = readFileSync(`/proc/${server.child.pid}/stat`, "utf8");
  const fields = line.slice(line.lastIndexOf(")") + 2).split(" ");
  return (Number(fields[11]) + Number(fields[12])) / TICKS;
}

/** What a server does in one round: its CPU in shares of a core, and the jobs that it finished. */
async function round(server) {
  const before = [performance.now(), cpuTime(server), (await server.api("GET", "/v1/stats")).acked];
  await sleep(ROUND_SECONDS);
  const after = [performance.now(), cpuTime(server), (await server.api("GET", "/v1/stats")).acked];
  const seconds = (after[0] - before[0]) / 1000;
  return { cpu: (after[1] - before[1]) / seconds, jobs: (after[2] - before[2]) / seconds };
}

/** Puts load on a server while something is measured: each job is put, reserved and acknowledged. */
async function underLoad(server, work) {
  const args = ["bench", server.url, "--mode", "end-to-end", "--rate", String(JOBS_PER_SECOND),
    "--batch", "100", "--connections", "4", "--workers", "4", "--duration", "1h"];
  const load = spawn(BINARY, args, { stdio: ["ignore", "ignore", "inherit"] });
  try {
    // Connections are open, and the first jobs are due.
    await sleep(4);
    return await work();
  } finally {
    load.kill("SIGKILL");
  }
}

/** Pages that follow the server. They do not animate the wheel, which would take the CPU that the
 * server and its load need; what the server sends is the same. */
async function withPages(browser, server, work) {
  const pages = [];
  for (let page = 0; page < PAGES; page += 1) {
    pages.push(await browser.open(server, "/", { reducedMotion: "reduce" }));
  }
  for (const page of pages) await liveState(page, "live");
  await sleep(1);
  const outcome = await work();
  for (const page of pages) await discard(page);
  await sleep(1);
  return outcome;
}

async function openPages(browser) {
  const server = await Server.start();
  const [alone, watched] = [[], []];
  await underLoad(server, async () => {
    for (let number = 0; number < ROUNDS; number += 1) {
      alone.push(await round(server));
      watched.push(await withPages(browser, server, () => round(server)));
    }
  });
  await server.stop();
  const cpu = (rounds) => mean(rounds.map((it) => it.cpu));
  const more = cpu(watched) - cpu(alone);
  console.log(`\nOpen pages, ${ROUNDS} rounds of ${ROUND_SECONDS} s`);
  show("jobs/s, without and with pages", `${Math.round(mean(alone.map((it) => it.jobs)))}, ${Math.round(mean(watched.map((it) => it.jobs)))}`,
    `${JOBS_PER_SECOND}`, [...alone, ...watched].every((it) => it.jobs > 0.98 * JOBS_PER_SECOND));
  show("server's CPU without pages, of a core", percent(cpu(alone)));
  show("spread of the rounds", percent(spread(alone.map((it) => it.cpu))));
  show(`server's CPU with ${PAGES} pages`, percent(cpu(watched)));
  show("spread of the rounds", percent(spread(watched.map((it) => it.cpu))));
  show("difference", percent(more), "under 3 %", more < 0.03);
}

async function noPages() {
  const kinds = [["with the dashboard, no page open", []], ["with --no-page", ["--no-page"]]];
  const servers = [];
  for (const [, args] of kinds) servers.push(await Server.start({ args }));
  const cpu = kinds.map(() => []);
  for (let number = 0; number < ROUNDS; number += 1) {
    for (const [place, server] of servers.entries()) {
      cpu[place].push((await underLoad(server, () => round(server))).cpu);
    }
  }
  for (const server of servers) await server.stop();
  console.log(`\nNo page open, at ${JOBS_PER_SECOND} jobs/s, ${ROUNDS} rounds of ${ROUND_SECONDS} s`);
  for (const [place, [name]] of kinds.entries()) {
    show(`server's CPU ${name}`, percent(mean(cpu[place])));
    show("spread of the rounds", percent(spread(cpu[place])));
  }
  const difference = mean(cpu[0]) - mean(cpu[1]);
  show("difference", percent(difference), "within the spread of the rounds",
    Math.abs(difference) <= Math.max(...cpu.map(spread)));
}

/** Jobs that are pending: two of five within the horizon of the wheel, the others up to 30 days ahead. */
async function fill(server) {
  const size = 10_000;
  const queues = ["orders", "mail", "billing", "reports"];
  for (let first = 0; first < PENDING; first += size) {
    const items = [];
    for (let job = first; job < first + size; job += 1) {
      const place = (job * 7919) % PENDING;
      const delay = place % 5 < 2 ? 120_000 + Math.floor(place * 0.16) : 3_600_000 + place * 2500;
      items.push({ queue: queues[job % queues.length], text: "x", delay: `${delay}ms` });
    }
    await server.api("POST", "/v1/jobs/batch", { items });
  }
}

/** The time to the first content of the overview in a browser without a cache, in milliseconds. */
async function firstContent(browser, server) {
  const page = await browser.open(server, null);
  await page.goto("/");
  const paint = await page.waitForFunction(() => performance.getEntriesByName("first-contentful-paint")[0]?.startTime);
  const millis = await paint.jsonValue();
  await discard(page);
  return millis;
}

/** How many times in a second the wheel is drawn. */
async function frameRate(browser, server) {
  const page = await browser.open(server, "/wheel");
  await liveState(page, "live");
  await page.waitForSelector("#wheel[data-frames]");
  const frames = () => page.locator("#wheel").evaluate((canvas) => [performance.now(), Number(canvas.dataset.frames)]);
  const before = await frames();
  await sleep(ROUND_SECONDS);
  const after = await frames();
  await discard(page);
  return (after[1] - before[1]) / ((after[0] - before[0]) / 1000);
}

async function manyJobs(browser) {
  const server = await Server.start();
  const empty = await frameRate(browser, server);
  await fill(server);
  const { pending, in_memory } = await server.api("GET", "/v1/stats");
  const loads = [];
  for (let load = 0; load < LOADS; load += 1) loads.push(await firstContent(browser, server));
  const full = await frameRate(browser, server);
  await server.stop();
  console.log(`\n${pending} pending jobs, ${in_memory} of them in memory`);
  const slowest = Math.max(...loads);
  show(`first content, slowest of ${LOADS} loads`, `${Math.round(slowest)} ms`, "under 1 s", slowest < 1000);
  show("frames/s of the wheel", full.toFixed(1));
  show("frames/s of the wheel without jobs", empty.toFixed(1));
}

const PARTS = { "open-pages": openPages, "no-pages": noPages, "many-jobs": manyJobs };
const wanted = process.argv[2] ? [process.argv[2]] : Object.keys(PARTS);
for (const name of wanted) {
  if (!(name in PARTS)) throw new Error(`there are no figures ${name}; there are ${Object.keys(PARTS).join(", ")}`);
}

const browser = await Browser.start();
console.log(`${run(["--version"]).trim()}, chromium ${browser.chromium.version()}, ${availableParallelism()} cores`);
try {
  for (const name of wanted) await PARTS[name](browser);
} finally {
  await browser.stop();
}
process.exit();
