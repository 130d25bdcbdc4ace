/**
 * Support for tests: a real server whose time stands still, and an in-memory fake.
 */

import { spawn, type ChildProcess } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { Client } from "./client.js";
import { fakeFetch } from "./fake.js";
import type { ClientOptions } from "./transport.js";
import type { Clock, Duration } from "./types.js";

export interface ServerOptions {
  /** Defaults to the environment variable `TICKWHEEL_BIN`, then to `tickwheel` on the path. */
  binary?: string;
  /** Further arguments of `tickwheel serve`. */
  args?: string[];
  /** Whether time stands still until `advance`. Defaults to true. */
  manualClock?: boolean;
}

/** A `tickwheel serve --clock manual` on a free port, with a data directory of its own. */
export class Server {
  url = "";
  private listen = "127.0.0.1:0";
  private child!: ChildProcess;

  private constructor(
    private readonly binary: string, private readonly args: string[], private readonly data: string,
  ) {}

  /** Starts a server. */
  static async start(options: ServerOptions = {}): Promise<Server> {
    const binary = options.binary ?? process.env["TICKWHEEL_BIN"] ?? "tickwheel";
    const clock = options.manualClock === false ? [] : ["--clock", "manual"];
    const data = await mkdtemp(join(tmpdir(), "tickwheel-test-"));
    const server = new Server(binary, [...clock, ...(options.args ?? [])], data);
    try {
      await server.startAgain();
    } catch (error) {
      await rm(data, { recursive: true, force: true });
      throw error;
    }
    return server;
  }

  /** Starts the server again after `stop` or `kill`, on the same port and directory. */
  async startAgain(): Promise<void> {
    const env = Object.entries(process.env).filter(([name]) => !name.startsWith("TICKWHEEL_"));
    const args = ["serve", "--listen", this.listen, "--access-log", "none", "--data", this.data, ...this.args];
    const child = spawn(this.binary, args, {
      env: Object.fromEntries(env), stdio: ["ignore", "ignore", "pipe"],
    });
    this.child = child;
    const log: string[] = [];
    await new Promise<void>((resolve, reject) => {
      child.once("error", (error) => {
        reject(new Error(`cannot start "${this.binary}": ${error.message}; set TICKWHEEL_BIN to the tickwheel binary`));
      });
      child.once("exit", () => reject(new Error(`the server did not start:\n${log.join("\n")}`)));
      createInterface({ input: child.stderr! }).on("line", (line) => {
        log.push(line);
        const found = /listening on (https?:\/\/(\S+))/.exec(line);
        if (found) {
          [, this.url, this.listen] = found as unknown as [string, string, string];
          resolve();
        }
      });
    });
  }

  /** Returns a client of this server. */
  client(options: ClientOptions = {}): Client {
    return new Client(this.url, options);
  }

  /** Advances the clock, and resolves when everything that is due is done. */
  advance(by: Duration): Promise<Clock> {
    return this.client().advance(by);
  }

  /** Stops the server as an operator would. */
  stop(): Promise<void> {
    return this.end("SIGTERM");
  }

  /** Kills the server, as a crash would. */
  kill(): Promise<void> {
    return this.end("SIGKILL");
  }

  private async end(signal: NodeJS.Signals): Promise<void> {
    if (this.child.exitCode !== null || this.child.signalCode !== null) return;
    const exited = new Promise<void>((resolve) => this.child.once("exit", () => resolve()));
    this.child.kill(signal);
    await exited;
  }

  /** Kills the server and removes its data. */
  async close(): Promise<void> {
    await this.kill();
    await rm(this.data, { recursive: true, force: true });
  }
}

/**
 * An in-memory stand-in for a server, for unit tests of producers and handlers. Its clock starts at a
 * fixed time and stands still. It has jobs, keys, leases, retries, pausing and lists; it has no
 * schedules, pacing, follow-ups, events, tokens or statistics, and answers those with 501.
 */
export class Fake {
  private readonly fetch = fakeFetch();

  /** Returns a client of the fake. */
  client(options: ClientOptions = {}): Client {
    return new Client("http://fake", { ...options, fetch: this.fetch });
  }

  /** Advances the clock: jobs become ready, and leases expire. */
  advance(by: Duration): Promise<Clock> {
    return this.client().advance(by);
  }
}
