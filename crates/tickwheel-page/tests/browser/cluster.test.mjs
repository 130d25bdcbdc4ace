// The cluster on the overview: three NATS servers and two nodes.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";

import { Browser, close, Server, until } from "./rig.mjs";

const folder = mkdtempSync(join(tmpdir(), "tickwheel-nats-"));
const processes = [];
const nodes = [];
let browser;

/** A port of loopback that no program uses. */
function freePort() {
  return new Promise((resolve) => {
    const listener = createServer().listen(0, "127.0.0.1", () => {
      const { port } = listener.address();
      listener.close(() => resolve(port));
    });
  });
}

/** Starts three NATS servers that sync every write; the options of a node. */
async function startNats() {
  const servers = [];
  for (const name of ["n1", "n2", "n3"]) {
    servers.push({ name, port: await freePort(), route: await freePort(), monitor: await freePort() });
  }
  const routes = servers.map(({ route }) => `nats-route://127.0.0.1:${route}`).join(", ");
  for (const { name, port, route, monitor } of servers) {
    const config = join(folder, `${name}.conf`);
    writeFileSync(config, `server_name: ${name}
listen: "127.0.0.1:${port}"
http: "127.0.0.1:${monitor}"
jetstream { store_dir: "${join(folder, name)}", sync_interval: always }
cluster { name: tickwheel, listen: "127.0.0.1:${route}", routes: [${routes}] }
`);
    processes.push(spawn(process.env.TICKWHEEL_NATS, ["-c", config], { stdio: "ignore" }));
  }
  for (const { monitor } of servers) {
    await until(() => fetch(`http://127.0.0.1:${monitor}/healthz`).then((answer) => answer.ok, () => false), `${monitor} is healthy`);
  }
  return [
    "--cluster", servers.map(({ port }) => `nats://127.0.0.1:${port}`).join(","),
    "--cluster-monitors", servers.map(({ monitor }) => `http://127.0.0.1:${monitor}`).join(","),
    "--cluster-create",
  ];
}

before(async () => {
  const options = await startNats();
  for (const name of ["alpha", "beta"]) {
    nodes.push(await Server.start({ args: [...options, "--node", name] }));
  }
  browser = await Browser.start();
});
after(async () => {
  await browser?.stop();
  for (const node of nodes) await node.stop();
  for (const child of processes) child.kill("SIGKILL");
  rmSync(folder, { recursive: true, force: true });
});

test("the overview shows nodes, partitions, owners and replicas", async () => {
  await until(async () => {
    const { nodes: alive, partitions } = await nodes[0].api("GET", "/v1/cluster");
    return alive.length === 2 && partitions.length > 0
      && partitions.every(({ owner, replicas }) => owner && replicas.length === 2);
  }, "both nodes follow");
  for (const node of nodes) {
    const page = await browser.open(node, "/");
    const rows = await page.locator("#cluster-nodes tbody tr").allInnerTexts();
    assert.deepEqual(rows.map((row) => row.split(/\s/)[0]), ["alpha", "beta"]);
    const { partitions } = await node.api("GET", "/v1/cluster");
    const shown = await page.locator("#cluster-partitions tbody tr").allInnerTexts();
    assert.equal(shown.length, partitions.length);
    for (const [index, { owner }] of partitions.entries()) {
      assert.ok(shown[index].includes(`${owner} owner`), shown[index]);
      assert.ok(shown[index].includes("standby"), shown[index]);
    }
    await close(page);
  }
});

test("a server of its own shows no cluster", async () => {
  const server = await Server.start();
  const page = await browser.open(server, "/");
  assert.equal(await page.locator("#cluster").count(), 0);
  await close(page);
  await server.stop();
});
