// Servers and browsers for the tests of the dashboard. Everything stays on loopback, and every wait
// has a limit.

import assert from "node:assert/strict";
import { spawn, spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import * as runner from "node:test";

const modules = createRequire(join(process.env.TICKWHEEL_BROWSER_MODULES, "x.js"));
const { chromium } = modules("playwright-core");
export const AXE = modules.resolve("axe-core");

export const BINARY = process.env.TICKWHEEL_BIN;
const FLAGS = [
  "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
  "--disable-background-networking", "--disable-component-update", "--disable-sync",
];
/** A signal ends the tests at once: Chromium ends with its connection. */
const SIGNALS = { handleSIGINT: false, handleSIGTERM: false, handleSIGHUP: false };
/** Nothing takes this long, even on a busy machine. */
export const PATIENCE = 60000;

/** How long a whole test may take. */
const TEST_LIMIT = 5 * PATIENCE;

/** A test with a limit: some calls to the browser have none of their own. */
export function test(name, ...rest) {
  const run = rest.pop();
  return runner.test(name, { timeout: TEST_LIMIT, ...rest.pop() }, run);
}
export const before = (run) => runner.before(run, { timeout: TEST_LIMIT });
export const after = (run) => runner.after(run, { timeout: TEST_LIMIT });

/** The outcome of a promise, or an error that says what took too long. */
function within(promise, what) {
  let timer;
  const limit = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`${what} takes longer than ${PATIENCE / 1000} s`)), PATIENCE);
  });
  return Promise.race([promise, limit]).finally(() => clearTimeout(timer));
}

/** Ends a process and waits until it is gone. */
function end(child, kill, what) {
  // A process that has ended sends no event.
  if (child.exitCode !== null || child.signalCode !== null) return Promise.resolve();
  const gone = new Promise((resolve) => { child.once("exit", resolve); });
  kill();
  return within(gone, `the end of ${what}`);
}

/** A real server with a data directory of its own. */
export class Server {
  static async start(options = {}) {
    const server = new Server();
    server.data = options.data ?? mkdtempSync(join(tmpdir(), "tickwheel-page-"));
    server.args = options.args ?? [];
    for (const token of options.tokens ?? []) token.secret = server.newToken(token);
    await server.run(options.port ?? 0);
    return server;
  }

  async run(port) {
    const args = ["serve", "--listen", `127.0.0.1:${port}`, "--data", join(this.data, "data"), ...this.args];
    this.child = spawn(BINARY, args, { stdio: ["ignore", "ignore", "pipe"] });
    this.log = "";
    const listening = new Promise((resolve, reject) => {
      this.child.once("exit", (code) => reject(new Error(`the server ended with ${code}: ${this.log}`)));
      this.child.stderr.on("data", (text) => {
        this.log += text;
        const [, url] = /listening on (\S+)/.exec(this.log) ?? [];
        if (url) {
          this.url = url.replace(/\/$/, "");
          resolve();
        }
      });
    });
    await within(listening, "the start of the server");
    this.child.removeAllListeners("exit");
  }

  newToken({ name, scope, queue }) {
    const args = ["token", "new", "--name", name, "--scope", scope, "--data", join(this.data, "data")];
    if (queue) args.push("--queue", queue);
    return run(args).trim();
  }

  removeToken(name) {
    run(["token", "rm", name, "--data", join(this.data, "data")]);
  }

  async api(method, path, body, token) {
    const headers = {};
    if (body !== undefined) headers["content-type"] = "application/json";
    if (token) headers.authorization = `Bearer ${token}`;
    const answer = await fetch(this.url + path, {
      method, headers, body: body === undefined ? undefined : JSON.stringify(body),
      signal: AbortSignal.timeout(PATIENCE),
    });
    const text = await answer.text();
    assert.ok(answer.ok, `${method} ${path}: ${answer.status} ${text}`);
    return JSON.parse(text);
  }

  put(queue, job, token) {
    return this.api("POST", `/v1/queues/${queue}/jobs`, job, token);
  }

  /** Puts a job and lets it die with an error. */
  async putDead(queue, job, error) {
    const { id } = await this.put(queue, job);
    const { deliveries } = await this.api("POST", `/v1/queues/${queue}/reserve`, { wait: "20s" });
    const { token, job: { id: reserved } } = deliveries[0];
    await this.api("POST", `/v1/jobs/${reserved}/fail`, { token, error, dead: true });
    return reserved === id ? id : reserved;
  }

  ended(signal) {
    return end(this.child, () => this.child.kill(signal), "the server");
  }

  async stop() {
    await this.ended("SIGKILL");
    rmSync(this.data, { recursive: true, force: true });
  }
}

/** Runs a command of the binary and returns what it prints. */
export function run(args) {
  const ran = spawnSync(BINARY, args, { encoding: "utf8", timeout: PATIENCE, killSignal: "SIGKILL" });
  assert.equal(ran.status, 0, ran.error ?? ran.stderr);
  return ran.stdout;
}

/** A browser; its pages report every error and every request that leaves the server. */
export class Browser {
  static async start() {
    const browser = new Browser();
    await browser.launch();
    return browser;
  }

  /** Starts Chromium as a process that can be killed, and connects to it. */
  async launch() {
    const options = { executablePath: "/usr/bin/chromium", args: FLAGS, timeout: PATIENCE, ...SIGNALS };
    this.host = await within(chromium.launchServer(options), "the start of the browser");
    const connection = chromium.connect(this.host.wsEndpoint(), { timeout: PATIENCE });
    this.chromium = await within(connection, "the connection to the browser");
  }

  async open(server, path, options = {}) {
    const opening = this.chromium.newContext({
      baseURL: server.url, locale: "en-US", timezoneId: "Europe/Berlin",
      viewport: { width: 1360, height: 900 }, ...options,
    });
    const context = await within(opening, "a new context");
    context.setDefaultTimeout(PATIENCE);
    const page = await within(context.newPage(), "a new page");
    page.problems = [];
    page.on("pageerror", (error) => page.problems.push(`error: ${error.message}`));
    page.on("console", (message) => {
      // A server that is down is reported as well; tests of that expect it.
      if (message.type() === "error" && !message.text().includes("Failed to load resource")
        && !message.text().includes("net::ERR_")) {
        page.problems.push(`console: ${message.text()}`);
      }
    });
    page.on("request", (request) => {
      const isForeign = ![server.url, "data:", "about:blank"].some((own) => request.url().startsWith(own));
      if (isForeign) {
        page.problems.push(`foreign request: ${request.url()}`);
      }
    });
    page.on("dialog", (dialog) => {
      page.problems.push(`dialog: ${dialog.message()}`);
      dialog.dismiss();
    });
    if (path) await page.goto(path);
    return page;
  }

  /** Kills the browser with all of its processes: one that is asked to close may never answer. */
  stop() {
    const child = this.host.process();
    return end(child, () => process.kill(-child.pid, "SIGKILL"), "the browser");
  }
}

/** Closes a page with its context. A context that is closed while its page still navigates, after a
 * click for example, may never answer; so the page first goes where nothing is loaded. */
export async function discard(page) {
  await page.goto("about:blank");
  await within(page.context().close(), "the end of a page");
}

/** Closes a page, which must have had no problem. */
export async function close(page) {
  const { problems } = page;
  await discard(page);
  assert.deepEqual(problems, []);
}

/** Waits until the live stream is in a state. */
export function liveState(page, state) {
  return page.waitForSelector(`#live-state[data-state="${state}"]`, { timeout: PATIENCE });
}

/** Waits until an asynchronous check holds, by what the server says. */
export async function until(check, what) {
  const end = Date.now() + PATIENCE;
  while (!(await check())) {
    assert.ok(Date.now() < end, `this did not happen: ${what}`);
    await new Promise((resolve) => { setTimeout(resolve, 50); });
  }
}

/** A server with something in every view. */
export async function seeded() {
  const server = await Server.start({ args: ["--push-allow", "127.0.0.0/8"] });
  for (let job = 0; job < 40; job += 1) {
    await server.put("orders", { payload: { order: job, total: 12345678901234567890n.toString() }, delay: `${5 + job * 6}s`, key: `order-${job}` });
  }
  await server.put("mail", { text: "hello", group: "acme" });
  await server.put("reports", { text: "monthly", delay: "20d" });
  for (let job = 0; job < 3; job += 1) {
    await server.putDead("billing", { payload: { invoice: job }, key: `invoice-${job}` }, `card ${4000 + job} was declined: timeout after 30 s`);
  }
  await server.api("PUT", "/v1/schedules/report", { queue: "mail", cron: "0 9 * * MON-FRI", timezone: "Europe/Berlin", text: "good morning" });
  await server.api("PUT", "/v1/schedules/beat", { queue: "mail", every: "1h", text: "beat" });
  await server.api("PUT", "/v1/targets/partner", { url: "http://127.0.0.1:9/hook" });
  // The server itself refuses the call.
  await server.api("PUT", "/v1/targets/refusing", { url: `${server.url}/v1/nothing` });
  await server.put("calls", { text: "x", target: "refusing", max_attempts: 1 });
  await until(async () => (await server.api("GET", "/v1/targets/refusing")).responses, "the call is answered");
  return server;
}

/** Saves a picture for the documents, if they are being made. */
export async function picture(what, name) {
  const folder = process.env.TICKWHEEL_SCREENSHOTS;
  if (!folder) return;
  mkdirSync(folder, { recursive: true });
  await what.screenshot({ path: join(folder, `${name}.png`) });
}
