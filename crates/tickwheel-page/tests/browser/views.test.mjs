// Every view in a real browser: content, live numbers, pictures; and without JavaScript.

import assert from "node:assert/strict";

import { after, before, Browser, close, discard, liveState, PATIENCE, picture, seeded, Server, test, until } from "./rig.mjs";

let server;
let browser;
before(async () => {
  server = await seeded();
  browser = await Browser.start();
});
after(async () => {
  await browser?.stop();
  await server?.stop();
});

const VIEWS = [
  ["overview", "/", "All on time", "一切准时"],
  ["queues", "/queues", "Filter by name", "按名称筛选"],
  ["queue", "/queues/billing", "Retry dead jobs", "重试死亡任务"],
  ["jobs", "/jobs", "Key begins with", "键前缀"],
  ["errors", "/errors", "Errors", "错误"],
  ["schedules", "/schedules", "New schedule", "新建定时计划"],
  ["targets", "/targets", "In flight", "进行中"],
  ["put", "/put", "Payload is", "内容类型"],
  ["wheel", "/wheel", "Occupied slots", "占用的槽"],
];

for (const [name, path, english, chinese] of VIEWS) {
  test(`the view ${name} shows its content in both languages, with and without JavaScript`, async () => {
    for (const [locale, text] of [["en-US", english], ["zh-CN", chinese]]) {
      for (const javaScriptEnabled of [true, false]) {
        const page = await browser.open(server, path, { locale, javaScriptEnabled });
        assert.equal(await page.locator("html").getAttribute("lang"), locale === "en-US" ? "en" : locale);
        assert.ok((await page.locator("main").innerText()).includes(text), `${path} in ${locale}: ${text}`);
        await close(page);
      }
    }
  });
}

/** Jobs as a busy service has them: many soon, fewer later, some peaks on whole seconds. */
async function busy() {
  const own = await Server.start();
  const jobs = [];
  for (let job = 0; job < 9000; job += 1) {
    const spread = (job * 7919) % 9000;
    const delay = job % 6 === 0 ? 5000 * (1 + (spread % 58)) : 1000 + Math.round(290000 * (spread / 9000) ** 1.5);
    jobs.push({ queue: ["orders", "mail", "billing"][job % 3], text: "x", delay: `${delay}ms` });
  }
  for (let job = 0; job < 900; job += 1) jobs.push({ queue: "reports", text: "far", delay: `${10 + (job % 40)}d` });
  await own.api("POST", "/v1/jobs/batch", { items: jobs });
  return own;
}

test("pictures of each view for the documents", { skip: process.env.TICKWHEEL_SCREENSHOTS ? false : "only with --screenshots" }, async () => {
  const job = (await server.api("GET", "/v1/queues/billing/jobs?state=dead")).jobs[0].id;
  for (const [name, path] of [...VIEWS, ["job", `/jobs/${job}`]]) {
    const page = await browser.open(server, path, { colorScheme: "light" });
    if (await page.locator("[data-page]").count()) await liveState(page, "live");
    if (name === "overview") await page.waitForSelector(".chart canvas");
    await picture(page, `page-${name}`);
    await close(page);
  }
  const own = await busy();
  const page = await browser.open(own, "/wheel", { colorScheme: "dark" });
  await liveState(page, "live");
  await page.waitForFunction(() => Number(document.getElementById("wheel").dataset.frames) > 150);
  await picture(page, "page-wheel");
  await picture(page.locator("#wheel"), "wheel-live");
  await page.goto("/");
  await liveState(page, "live");
  await page.waitForSelector(".chart canvas");
  await page.waitForFunction(() => Number(document.querySelector("canvas[data-wheel]").dataset.frames) > 150);
  await picture(page, "page-overview-dark");
  await close(page);
  await own.stop();
});

test("a target shows its last responses", async () => {
  const page = await browser.open(server, "/targets");
  const row = page.locator(".card", { hasText: "refusing" }).locator("tbody tr");
  assert.equal(await row.count(), 1);
  assert.match(await row.innerText(), /404[^]*not-found/);
  await close(page);
});

test("numbers of the overview follow the server", async () => {
  const page = await browser.open(server, "/");
  await liveState(page, "live");
  await page.waitForSelector(".chart canvas");
  const dead = page.locator('tr[data-queue="billing"] [data-field="dead"]');
  assert.equal(await dead.innerText(), "3");
  await server.putDead("billing", { text: "x" }, "broken");
  await page.waitForFunction(() => document.querySelector('tr[data-queue="billing"] [data-field="dead"]').textContent === "4");
  await server.api("POST", "/v1/queues/orders/pause");
  await page.waitForSelector('tr[data-queue="orders"] .badge.warn:not([hidden])');
  await server.api("POST", "/v1/queues/orders/resume");
  await server.put("brand-new", { text: "x", delay: "1h" });
  await page.waitForSelector('tr[data-queue="brand-new"]');
  await close(page);
});

test("an update can be paused, and continues", async () => {
  const page = await browser.open(server, "/queues/mail");
  await liveState(page, "live");
  await page.click("#live-pause");
  await liveState(page, "paused");
  const before = await page.locator('[data-field="scheduled"]').innerText();
  await server.put("mail", { text: "later", delay: "1h" });
  await page.click("#live-pause");
  await liveState(page, "live");
  await page.waitForFunction((old) => document.querySelector('[data-field="scheduled"]').textContent !== old, before);
  await close(page);
});

test("a page reconnects after the server was killed and started again", async () => {
  const own = await Server.start();
  await own.put("mail", { text: "survives", delay: "1h" });
  const page = await browser.open(own, "/");
  await liveState(page, "live");
  const port = new URL(own.url).port;
  await own.ended("SIGKILL");
  await liveState(page, "lost");
  assert.match(await page.locator("#live-text").innerText(), /disconnected/);
  await own.run(port);
  await liveState(page, "live");
  assert.equal(await page.locator('[data-total="scheduled"]').innerText(), "1");
  await discard(page);
  await own.stop();
});

test("charts show the history of minutes and hours, also of one queue", async () => {
  const page = await browser.open(server, "/queues/mail");
  await page.waitForSelector(".chart canvas");
  const asked = page.waitForResponse((answer) => answer.url().includes("window=24h"));
  await page.click('[data-window="24h"]');
  assert.equal((await asked).status(), 200);
  await page.waitForSelector(".chart canvas");
  await close(page);
});

test("the chart of jobs by state shows every state, scheduled ones included", async () => {
  for (const path of ["/", "/queues/reports"]) {
    const page = await browser.open(server, path);
    const legend = page.locator(".chart", { hasText: "Jobs by state" }).locator(".u-legend .u-series");
    await legend.first().waitFor();
    const shown = () => legend.evaluateAll((rows) => Object.fromEntries(rows.slice(1)
      .map((row) => [row.querySelector(".u-label").textContent, row.querySelector(".u-value").textContent])));
    assert.deepEqual(Object.keys(await shown()), ["ready", "leased", "dead", "scheduled (right axis)"]);
    await until(async () => {
      const counts = path === "/" ? (await server.api("GET", "/v1/overview")).totals.jobs : (await server.api("GET", "/v1/queues/reports")).jobs;
      return (await shown())["scheduled (right axis)"] === String(counts.scheduled) && counts.scheduled > 0;
    }, `the legend of ${path} has the number of scheduled jobs`);
    await close(page);
  }
});

test("the overview shows when waiting jobs become due, as the API has it", async () => {
  const page = await browser.open(server, "/");
  await liveState(page, "live");
  const names = ["ready", "minute", "hour", "day", "month", "later"];
  await until(async () => {
    const { upcoming } = (await server.api("GET", "/v1/overview")).totals;
    const shown = await page.evaluate((all) => all.map((name) => {
      const meter = document.querySelector(`[data-upcoming="${name}"]`);
      return [meter.value, document.querySelector(`[data-upcoming-count="${name}"]`).textContent];
    }), names);
    return names.every((name, place) => shown[place].every((value) => Number(value) === upcoming[name]));
  }, "the counts agree");
  assert.ok(Number(await page.locator('[data-upcoming-count="month"]').innerText()) >= 1);
  await close(page);
});

test("preferences stay: language, theme and time format", async () => {
  const page = await browser.open(server, "/queues/orders");
  await page.selectOption('select[name="language"]', "zh-CN");
  await page.selectOption('select[name="theme"]', "dark");
  await page.selectOption('select[name="times"]', "utc");
  await page.click(".preferences button");
  await page.waitForURL("**/queues/orders");
  assert.equal(await page.locator("html").getAttribute("lang"), "zh-CN");
  assert.equal(await page.locator("html").getAttribute("data-theme"), "dark");
  const background = await page.evaluate(() => getComputedStyle(document.body).backgroundColor);
  assert.equal(background, "rgb(13, 17, 23)");
  await page.goto("/jobs?queue=orders&state=scheduled");
  assert.match(await page.locator("tbody time").first().innerText(), /^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC$/);
  await close(page);
});

test("times are relative by default, and move on", async () => {
  const { id } = await server.put("times", { text: "x", delay: "40d" });
  const page = await browser.open(server, `/jobs/${id}`);
  const [due, created] = [page.locator("dl.facts time").nth(0), page.locator("dl.facts time").nth(1)];
  assert.match(await due.innerText(), /^in (39|40) d$/);
  const first = await created.innerText();
  assert.match(first, /^(now|[\d.]+ s ago|\d+ min( \d+ s)? ago)$/);
  await until(async () => (await created.innerText()) !== first, "the time since then grows");
  await close(page);
});

test("local times are those of the browser's zone, and UTC without JavaScript", async () => {
  const timezoneId = "Asia/Kathmandu";
  const { id, due_ms: dueMs } = await server.put("times", { text: "x", delay: "40d" });
  const format = new Intl.DateTimeFormat("en", { dateStyle: "medium", timeStyle: "medium", timeZone: timezoneId });
  const utc = `${new Date(dueMs).toISOString().slice(0, 19).replace("T", " ")} UTC`;
  for (const [javaScriptEnabled, wanted] of [[true, format.format(dueMs)], [false, utc]]) {
    const page = await browser.open(server, `/jobs/${id}`, { timezoneId, javaScriptEnabled });
    await page.selectOption('select[name="times"]', "local");
    await page.click(".preferences button");
    await page.waitForURL(`**/jobs/${id}`);
    const due = page.locator("dl.facts time").first();
    assert.equal((await due.innerText()).replace(/\s/g, " "), wanted.replace(/\s/g, " "));
    assert.equal(await due.getAttribute("title"), utc);
    await close(page);
  }
});

test("a first visit loads at most 120 KB", async () => {
  const page = await browser.open(server, "/");
  await liveState(page, "live");
  await page.waitForSelector(".chart canvas");
  const sizes = await page.evaluate(() => [...performance.getEntriesByType("navigation"), ...performance.getEntriesByType("resource")]
    .map((entry) => [new URL(entry.name).pathname.replace(/.*\//, "/"), entry.encodedBodySize]));
  for (const name of ["/", "/uplot.min.js", "/htmx.min.js", "/page.css", "/wheel.js", "/charts.js", "/history"]) {
    assert.ok(sizes.some(([path, size]) => path === name && size > 0), `${name} is missing in ${JSON.stringify(sizes)}`);
  }
  const total = sizes.reduce((sum, [, size]) => sum + size, 0);
  assert.ok(total <= 120_000, `${total} bytes: ${JSON.stringify(sizes)}`);
  await close(page);
});

test("the first content of the overview is there at once", async () => {
  const page = await browser.open(server, null);
  await page.goto("/", { waitUntil: "commit" });
  await page.waitForSelector("#health", { timeout: PATIENCE });
  const timing = await page.evaluate(() => performance.getEntriesByType("navigation")[0].responseEnd);
  console.log(`the page arrived after ${Math.round(timing)} ms`);
  await until(async () => page.evaluate(() => document.readyState === "complete"), "the page is complete");
  await close(page);
});
