/**
 * Uses a client that @hey-api/openapi-ts made: put, reserve, ack, list, batches and a problem.
 * Arguments: the address of the server.
 */

import assert from "node:assert/strict";
import { ackJob, getJob, getQueue, getStats, listJobs, patchSettings, putJob, putJobs, reserveJobs } from "./generated/sdk.gen";
import { client } from "./generated/client.gen";

async function main(address: string | undefined): Promise<void> {
  assert(address);
  client.setConfig({ baseUrl: address });
  const strict = { throwOnError: true } as const;
  const orders = { path: { queue: "orders" }, ...strict };

  const settings = await patchSettings({ ...orders, body: { retention: { done: { count: 10 } } } });
  assert.equal(settings.data.settings.retention?.done?.count, 10);

  const put = await putJob({ ...orders, body: { payload: { order: 42 }, key: "order-42" } });
  assert.equal(put.data.outcome, "created");
  const items = [{ queue: "orders", text: "later", delay: "1h" }, { queue: "orders" }];
  const batch = await putJobs({ body: { items }, ...strict });
  assert.equal(batch.data.results[0]?.ok?.queue, "orders");
  assert.equal(batch.data.results[1]?.error?.status, 422);

  const reserved = await reserveJobs({ ...orders, body: { lease: "1m", worker: "generated" } });
  const [delivery] = reserved.data.deliveries;
  assert(delivery);
  assert.equal(delivery.job.id, put.data.id);
  const path = { id: delivery.job.id };
  const acked = await ackJob({ path, body: { token: delivery.token, result: { closed: true } }, ...strict });
  assert.equal(acked.data.state, "done");

  const job = await getJob({ path, ...strict });
  assert.deepEqual(job.data.result, { closed: true });
  assert.equal(job.data.history?.[0]?.worker, "generated");
  const page = await listJobs({ ...orders, query: { state: "scheduled" } });
  assert.deepEqual(page.data.jobs.map((it) => it.text), ["later"]);
  assert.equal((await getQueue(orders)).data.jobs.done, 1);
  assert.equal((await getStats({ query: { since: "5m" }, ...strict })).data.recent?.acked, 1);
  const missing = await getQueue({ path: { queue: "nothing" } });
  assert.equal(missing.error?.status, 404);
  console.log("the generated TypeScript client works");
}

main(process.argv[2]).catch((error: unknown) => {
  console.error(error);
  process.exit(1);
});
