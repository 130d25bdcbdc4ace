// The drawing of the wheel: its counts against the API, its slots, its motion.

import assert from "node:assert/strict";

import { after, before, Browser, close, liveState, Server, test, until } from "./rig.mjs";

let server;
let browser;
before(async () => {
  server = await Server.start();
  browser = await Browser.start();
  const jobs = [];
  for (let job = 0; job < 900; job += 1) {
    jobs.push({ queue: "orders", text: "x", delay: `${20000 + Math.floor((job * 7919) % 270000)}ms` });
  }
  for (let job = 0; job < 50; job += 1) jobs.push({ queue: "orders", text: "far", delay: "40d" });
  await server.api("POST", "/v1/jobs/batch", { jobs });
});
after(async () => {
  await browser?.stop();
  await server?.stop();
});

const sum = (numbers) => numbers.reduce((one, other) => one + other, 0);
const onWheel = (wheel) => sum(wheel.levels.map((level) => sum(level.jobs)));

test("the drawing and the tables have the counts of the API", async () => {
  const page = await browser.open(server, "/wheel");
  await liveState(page, "live");
  await page.waitForSelector("#wheel[data-on]");
  // Jobs leave the wheel meanwhile, so both are read until they agree on one moment.
  await until(async () => {
    const wheel = await server.api("GET", "/v1/wheel");
    const drawn = await page.locator("#wheel").evaluate((canvas) => ({ ...canvas.dataset }));
    const shown = await page.locator('[data-wheel-fact="on"]').innerText();
    return Number(drawn.on) === onWheel(wheel) && Number(shown.replace(/\D/g, "")) === onWheel(wheel)
      && Number(drawn.beyond) === wheel.beyond;
  }, "the counts agree");
  const rows = await page.locator("#wheel-slots tbody tr").evaluateAll((lines) => lines.map((line) => Number(line.cells[4].textContent.replace(/\D/g, ""))));
  assert.ok(sum(rows) > 500, `the table lists ${sum(rows)} jobs`);
  await close(page);
});

test("the wheel turns: frames follow each other, and things are drawn", async () => {
  const page = await browser.open(server, "/wheel");
  await liveState(page, "live");
  await page.waitForFunction(() => Number(document.getElementById("wheel").dataset.frames) > 30);
  // The slots glow once the first counts have arrived.
  await until(async () => {
    const glowing = await page.locator("#wheel").evaluate((canvas) => {
      const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
      let warm = 0;
      for (let at = 0; at < data.length; at += 4) if (data[at] > 150 && data[at + 2] < 120) warm += 1;
      return warm;
    });
    return glowing > 100;
  }, "slots glow");
  await close(page);
});

test("what an outer hand reaches moves inward, and what the innermost hand reaches flashes", async () => {
  const own = await Server.start();
  const page = await browser.open(own, "/wheel");
  await liveState(page, "live");
  const seen = () => page.locator("#wheel").evaluate(({ dataset }) => [Number(dataset.moved), Number(dataset.fired)]);
  await page.waitForSelector("#wheel[data-frames]");
  assert.deepEqual(await seen(), [0, 0]);
  // Jobs due within seconds, until the drawing has seen some of them on the way in.
  await until(async () => {
    const items = [];
    for (let job = 0; job < 40; job += 1) items.push({ queue: "soon", text: "x", delay: `${1500 + job * 50}ms` });
    await own.api("POST", "/v1/jobs/batch", { items });
    const [moved, fired] = await seen();
    return moved > 0 && fired > 0;
  }, "jobs move inward and flash");
  // A paused page draws nothing.
  await page.click("#live-pause");
  await liveState(page, "paused");
  const frames = () => page.locator("#wheel").getAttribute("data-frames");
  let last = null;
  await until(async () => { const old = last; last = await frames(); return old === last; }, "the drawing rests");
  await close(page);
  await own.stop();
});

test("a slot tells its time span and count, and leads to its jobs", async () => {
  const page = await browser.open(server, "/wheel");
  await liveState(page, "live");
  await page.focus("#wheel");
  await page.keyboard.press("ArrowUp");
  await page.keyboard.press("ArrowRight");
  const tip = page.locator("#wheel-tip");
  await tip.waitFor({ state: "visible" });
  assert.match(await tip.innerText(), /Level 2, slot \d+: .* jobs, \d+ leases/);
  await page.keyboard.press("Escape");
  await tip.waitFor({ state: "hidden" });
  await page.keyboard.press("ArrowUp");
  await page.keyboard.press("ArrowRight");
  await page.keyboard.press("Enter");
  await page.waitForURL(/\/jobs\?state=scheduled&due_from=\d+&due_to=\d+/);
  await close(page);
});

test("the pointer shows and opens a slot", async () => {
  const page = await browser.open(server, "/wheel");
  await liveState(page, "live");
  const box = await page.locator("#wheel").boundingBox();
  const tip = page.locator("#wheel-tip");
  // From the rim at nine o'clock inward, to the outermost ring.
  const y = box.y + box.height * 0.501;
  let x = box.x + box.width * 0.02;
  while (!(await tip.isVisible())) {
    x += box.width * 0.01;
    assert.ok(x < box.x + box.width / 2, "no slot shows a tip");
    await page.mouse.move(x, y);
  }
  assert.match(await tip.innerText(), /Level [23], slot 19[12]: .*, \d+ jobs/);
  await page.mouse.click(x + 4, y);
  await page.waitForURL(/due_from=\d+/);
  await close(page);
});

test("with reduced motion nothing moves, and the counts still follow", async () => {
  const page = await browser.open(server, "/wheel", { reducedMotion: "reduce" });
  await liveState(page, "live");
  await page.waitForSelector("#wheel[data-on]");
  for (const name of ["frames", "moved", "fired"]) assert.equal(await page.locator("#wheel").getAttribute(`data-${name}`), null);
  const before = Number(await page.locator("#wheel").getAttribute("data-beyond"));
  await server.put("orders", { text: "far", delay: "50d" });
  await page.waitForFunction((old) => Number(document.getElementById("wheel").dataset.beyond) > old, before);
  await close(page);
});
