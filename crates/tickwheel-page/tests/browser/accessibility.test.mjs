// axe-core on every view, in both languages and themes; narrow screens; the keyboard.

import assert from "node:assert/strict";

import { after, AXE, before, Browser, close, liveState, seeded, test } from "./rig.mjs";

let server;
let browser;
let job;
before(async () => {
  server = await seeded();
  browser = await Browser.start();
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

for (const locale of ["en-US", "zh-CN"]) {
  for (const colorScheme of ["light", "dark"]) {
    test(`axe finds nothing in ${locale} and ${colorScheme}`, async () => {
      const page = await browser.open(server, null, { locale, colorScheme, bypassCSP: true, reducedMotion: "reduce" });
      for (const path of paths()) {
        await page.goto(path);
        if (await page.locator("[data-page]").count()) await liveState(page, "live");
        await page.addScriptTag({ path: AXE });
        const { violations } = await page.evaluate(() => window.axe.run(document, {
          runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"],
        }));
        const found = violations.map(({ id, nodes }) => `${id}: ${nodes.map(({ html }) => html.slice(0, 160)).join(" | ")}`);
        assert.deepEqual(found, [], `${path} in ${locale} and ${colorScheme}`);
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
