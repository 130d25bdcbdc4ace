// axe-core on every view, in both languages and themes; narrow screens; the keyboard.

import assert from "node:assert/strict";

import { after, AXE, before, Browser, close, liveState, seeded, test } from "./rig.mjs";

let server;
let browser;
let job;
before(async () => {
  server = await seeded();
  browser = await Browser.start();
  // One request of a bulk action takes 20 steps, and a queue is a step at least.
  const items = [];
  for (let queue = 10; queue < 35; queue += 1) items.push({ queue: `many-${queue}`, text: "x", delay: "1h", key: "many" });
  await server.api("POST", "/v1/jobs/batch", { items });
  job = (await server.api("GET", "/v1/queues/billing/jobs?state=dead")).jobs[0].id;
});
after(async () => {
  await browser?.stop();
  await server?.stop();
});

const paths = () => [
  "/", "/queues", "/queues/billing", "/queues/billing/confirm?action=kick", "/jobs", "/errors", `/jobs/${job}`,
  "/schedules", "/targets", "/put", "/wheel", "/login", "/jobs/nonsense",
];

/** What no address alone shows: each entry brings a page there. */
const STEPS = {
  "the question before a bulk action": async (page) => {
    await page.goto("/jobs?key=many");
    await page.check("#select-all");
    await page.fill('.toolbar input[name="delay"]', "1h");
    await page.click('button[value="reschedule"]');
    await page.waitForSelector(".question");
  },
  "the progress of a bulk action": async (page) => {
    // The next step of the script answers nothing, so the page stays where it is.
    await page.route("**/jobs/bulk/run", (route) => (route.request().headers()["hx-request"] ? route.fulfill({ status: 204 }) : route.continue()));
    await page.click("button.danger");
    await page.waitForSelector(".bulk progress");
    assert.equal(await page.locator("#bulk-form button").count(), 1, "the action is complete");
  },
  "a complete bulk action": async (page) => {
    await page.unroute("**/jobs/bulk/run");
    await page.click("#bulk-form button");
    await page.waitForSelector(".bulk a.button.primary");
  },
  "the test of a target": async (page) => {
    await page.goto("/targets");
    await page.click('form[action="/targets/refusing/test"] button');
    await page.waitForSelector("pre.payload >> nth=1");
  },
  "the question before a schedule is removed": async (page) => {
    await page.goto("/schedules");
    await page.click("#schedule-report form button.danger");
    await page.waitForSelector(".question");
  },
  "a cron expression while it is typed": async (page) => {
    await page.goto("/schedules");
    await page.fill('input[name="cron"]', "30 8 * * MON");
    await page.waitForSelector("#cron-check .runs");
  },
  "a cron expression that is wrong": async (page) => {
    await page.fill('input[name="cron"]', "30 8 * * MO");
    await page.waitForSelector("#cron-check .notice.bad");
  },
  "the commands of a put": async (page) => {
    await page.goto("/put");
    await page.fill('input[name="queue"]', "forms");
    await page.fill('textarea[name="payload"]', "{}");
    await page.locator("#cli").waitFor({ state: "visible" });
  },
  "a put": async (page) => {
    await page.click('button[value="put"]');
    await page.waitForSelector('.notice a[href^="/jobs/"]');
  },
  "a put that is refused": async (page) => {
    await page.fill('input[name="delay"]', "soon");
    await page.click('button[value="put"]');
    await page.waitForSelector(".notice.bad");
  },
  "settings that are refused": async (page) => {
    await page.goto("/queues/mail");
    await page.fill('input[name="lease"]', "soon");
    await page.click('form[action="/queues/mail/settings"] button');
    await page.waitForSelector(".notice.bad");
  },
};

async function check(page, what) {
  await page.addScriptTag({ path: AXE });
  const { violations } = await page.evaluate(() => window.axe.run(document, {
    runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"],
  }));
  const found = violations.map(({ id, nodes }) => `${id}: ${nodes.map(({ html }) => html.slice(0, 160)).join(" | ")}`);
  assert.deepEqual(found, [], what);
}

for (const locale of ["en-US", "zh-CN"]) {
  for (const colorScheme of ["light", "dark"]) {
    test(`axe finds nothing in ${locale} and ${colorScheme}`, async () => {
      const page = await browser.open(server, null, { locale, colorScheme, bypassCSP: true, reducedMotion: "reduce" });
      for (const path of paths()) {
        await page.goto(path);
        if (await page.locator("[data-page]").count()) await liveState(page, "live");
        await check(page, `${path} in ${locale} and ${colorScheme}`);
      }
      for (const [what, step] of Object.entries(STEPS)) {
        await step(page);
        await check(page, `${what} in ${locale} and ${colorScheme}`);
      }
      await close(page);
    });
  }
}

test("narrow screens need no sideways scrolling", async () => {
  const page = await browser.open(server, null, { viewport: { width: 360, height: 740 } });
  for (const path of paths()) {
    await page.goto(path);
    const [content, screen] = await page.evaluate(() => [document.documentElement.scrollWidth, document.documentElement.clientWidth]);
    assert.ok(content <= screen, `${path}: ${content} > ${screen}`);
  }
  await close(page);
});

test("the keyboard reaches the content and the sections", async () => {
  const page = await browser.open(server, "/queues");
  await page.keyboard.press("Tab");
  assert.equal(await page.evaluate(() => document.activeElement.className), "skip");
  await page.keyboard.press("Enter");
  assert.equal(await page.evaluate(() => document.activeElement.id), "main");
  await close(page);
});
