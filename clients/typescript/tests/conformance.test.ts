/** Runs the scenarios of `clients/conformance`, and with the fake what it has. */

import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import {
  ApiError, DeadJob, ReleaseJob, RetryJob, SignatureError, verifyWebhook, Worker,
  type BulkChange, type Client, type Event, type Result, type TargetEvent,
} from "../src/index.js";
import { Fake, Server } from "../src/testing.js";
import { match, point, substitute, type Variables } from "./matching.js";
import { repository } from "./repository.js";

/** What the fake does not have: schedules, groups, targets, history, follow-ups, statistics, events,
 * restarts, imports, and the server's way of checking requests. */
const NOT_FAKED = [
  "concurrent_puts", "error_groups", "errors", "event_filters", "events", "groups", "history",
  "idempotency", "insight", "put_options", "queues", "rate_limit", "restart", "results", "schedules",
  "service", "stats", "targets",
];

type Given = Record<string, any>;

class Operations {
  private stream: AsyncGenerator<Event | TargetEvent> | undefined;

  constructor(private readonly client: Client, readonly server?: Server) {}

  async perform(action: string, given: Given): Promise<unknown> {
    const { client } = this;
    const { id, queue, key, token, name, items, ...rest } = given;
    const job = id ?? { queue, key };
    switch (action) {
      case "put": {
        const { idempotency_key, ...put } = given;
        return client.putJob(put as never, idempotency_key);
      }
      case "put_many": return { results: await client.putMany(items, given["idempotency_key"]) };
      case "put_together": return { results: await Promise.all(items.map((it: any) => settled(client.putJob(it)))) };
      case "import_many": return { results: await client.importMany(items) };
      case "find_ids": return { ids: await client.findIds(rest["short"]) };
      case "get": return client.get(job);
      case "cancel": return client.cancel(job);
      case "reschedule": return client.reschedule(job, rest);
      case "reserve": return { deliveries: await client.reserve(queue, rest) };
      case "ack": return client.ack(id, token, rest["result"]);
      case "fail": return client.fail(id, token, rest);
      case "extend": return client.extend(id, token, rest["lease"]);
      case "release": return client.release(id, token, rest["delay"]);
      case "kick": return client.kick(id);
      case "ack_many": return { results: await client.ackMany(items) };
      case "fail_many": return { results: await client.failMany(items) };
      case "extend_many": return { results: await client.extendMany(items) };
      case "release_many": return { results: await client.releaseMany(items) };
      case "cancel_many": return { results: await client.cancelMany(items.map((it: Given) => it["id"])) };
      case "reschedule_many": return { results: await client.rescheduleMany(items) };
      case "kick_many": return { results: await client.kickMany(items.map((it: Given) => it["id"])) };
      case "list": return client.list(queue, { key, ...rest });
      case "list_all": return { jobs: await collect(client.listAll(queue, { key, ...rest })) };
      case "queues": return { queues: await client.queues() };
      case "queue": return client.queue(queue);
      case "put_settings": return client.putSettings(queue, rest["settings"]);
      case "patch_settings": return client.patchSettings(queue, rest["settings"]);
      case "pause_queue": return client.pauseQueue(queue);
      case "resume_queue": return client.resumeQueue(queue);
      case "kick_queue": return { count: await client.kickQueue(queue, rest["limit"]) };
      case "purge_queue": return { count: await client.purgeQueue(queue, rest["state"], rest["older_than"]) };
      case "drain_queue": return { count: await client.drainQueue(queue) };
      case "remove_queue": return { count: await client.removeQueue(queue, rest) };
      case "groups": return client.groups(queue, rest);
      case "patch_group": {
        const { group, ...patch } = rest;
        return client.patchGroup(queue, group, patch);
      }
      case "errors": return client.errors(queue, rest);
      case "change_matching": return client.changeMatching(queue, rest as BulkChange);
      case "change_all": return client.changeAllMatching(queue, rest as BulkChange);
      case "overview": return client.overview();
      case "history": return client.history({ queue, ...rest });
      case "wheel": return client.wheel();
      case "targets": return { targets: await client.targets() };
      case "target": return client.target(name);
      case "put_target": return client.putTarget(name, rest["settings"]);
      case "patch_target": return client.patchTarget(name, rest["settings"]);
      case "remove_target": return client.removeTarget(name);
      case "pause_target": return client.pauseTarget(name);
      case "resume_target": return client.resumeTarget(name);
      case "rotate_target": return client.rotateTarget(name, rest);
      case "test_target": return client.testTarget(name);
      case "put_schedule": {
        const { name, ...schedule } = given;
        return client.putSchedule(name, schedule as never);
      }
      case "schedules": return { schedules: await client.schedules() };
      case "schedule": return client.schedule(name);
      case "pause_schedule": return client.pauseSchedule(name);
      case "resume_schedule": return client.resumeSchedule(name);
      case "remove_schedule": return client.removeSchedule(name);
      case "next_runs": return { next: await client.nextRuns(name, rest["n"]) };
      case "stats": return client.stats(rest);
      case "health": return client.health();
      case "ready": return client.ready();
      case "clock": return client.clock();
      case "advance": return client.advance(rest["by"]);
      case "work": return this.work(given);
      case "follow": {
        const filter = { ...rest, key, event: rest["event"]?.split(",") };
        this.stream = rest["targets"] ? await client.targetEvents() : await client.events(queue, filter);
        return {};
      }
      case "events": return { events: await this.events(rest["count"]) };
      case "restart":
        await (rest["kill"] ? this.server!.kill() : this.server!.stop());
        await this.server!.startAgain();
        return {};
      case "verify_webhook": return { valid: isValid(given) };
      default: throw new Error(`unknown operation ${action}`);
    }
  }

  private async work({ queue, jobs, ...options }: Given): Promise<unknown> {
    const worker = new Worker(this.client, options);
    let handled = 0;
    worker.handle(queue, async (job, { client }) => {
      handled += 1;
      const { do: action, error, delay, result, queue } = job.payload as Given;
      try {
        if (action === "throw") throw new Error(error);
        if (action === "retry") throw new RetryJob(error, delay);
        if (action === "dead") throw new DeadJob(error);
        if (action === "release") throw new ReleaseJob(delay);
        if (action === "put") await client.putJob({ queue, text: "child" });
        else assert.equal(action, "return");
        return result;
      } finally {
        if (handled >= jobs) worker.stop();
      }
    });
    await worker.run();
    return { handled };
  }

  private async events(count: number): Promise<(Event | TargetEvent)[]> {
    const events: (Event | TargetEvent)[] = [];
    while (events.length < count) {
      const { value } = await this.stream!.next();
      if (!["reset", "message"].includes(value.event)) events.push(value);
    }
    return events;
  }

  async close(): Promise<void> {
    await this.stream?.return(undefined);
  }
}

async function collect<T>(items: AsyncIterable<T>): Promise<T[]> {
  const all: T[] = [];
  for await (const item of items) all.push(item);
  return all;
}

async function settled<T>(promise: Promise<T>): Promise<Result<T>> {
  try {
    return { ok: await promise };
  } catch (error) {
    if (error instanceof ApiError) return { error: error.problem };
    throw error;
  }
}

function isValid({ secret, headers, body, now }: Given): boolean {
  try {
    verifyWebhook(secret, headers, body, { now });
    return true;
  } catch (error) {
    if (error instanceof SignatureError) return false;
    throw error;
  }
}

async function run(scenario: Given, operations: Operations): Promise<void> {
  const variables: Variables = operations.server ? { server: operations.server.url } : {};
  for (const [index, step] of (scenario["steps"] as Given[]).entries()) {
    const unknown = Object.keys(step).filter((it) => !["do", "with", "expect", "error", "save"].includes(it));
    assert.deepEqual(unknown, []);
    try {
      const expectedError = substitute(step["error"], variables);
      let answer: unknown;
      try {
        answer = await operations.perform(step["do"], substitute(step["with"] ?? {}, variables));
      } catch (error) {
        if (expectedError === undefined || !(error instanceof ApiError)) throw error;
        match(expectedError, error.problem);
        continue;
      }
      assert.equal(expectedError, undefined, `succeeded with ${JSON.stringify(answer)}`);
      match(substitute(step["expect"] ?? {}, variables), answer);
      for (const [name, pointer] of Object.entries(step["save"] ?? {})) {
        variables[name] = point(answer, pointer as string);
      }
    } catch (error) {
      throw new Error(`step ${index + 1}, ${step["do"]}: ${(error as Error).message}`, { cause: error });
    }
  }
}

const folder = join(repository(), "clients", "conformance");
const files = readdirSync(folder).filter((file) => file.endsWith(".json")).sort();
assert(files.length > 20);
for (const file of files) {
  const scenario = JSON.parse(readFileSync(join(folder, file), "utf8")) as Given;
  const name = file.replace(".json", "");
  test(`${name} on a server`, { timeout: 120_000 }, async () => {
    const server = await Server.start({ args: scenario["serve"] ?? [] });
    const operations = new Operations(server.client(), server);
    try {
      await run(scenario, operations);
    } finally {
      await operations.close();
      await server.close();
    }
  });
  if (!NOT_FAKED.includes(name)) {
    test(`${name} on the fake`, () => run(scenario, new Operations(new Fake().client())));
  }
}
