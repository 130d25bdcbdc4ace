// Payloads, keys, names and errors that try to be more than text.

import assert from "node:assert/strict";

import { after, before, Browser, close, discard, liveState, Server, test } from "./rig.mjs";

const SCRIPT = "<script>alert(1)</script><img src=x onerror=alert(2)>\"'><svg onload=alert(3)>{{7*7}}";
const BIDI = "start \u202egnissim\u202c end \u2066x\u2069 \u0007";

let server;
let browser;
let ids;
before(async () => {
  server = await Server.start();
  browser = await Browser.start();
  ids = {
    script: (await server.put("evil", { text: SCRIPT, key: SCRIPT, group: SCRIPT, headers: { "x-evil": SCRIPT }, delay: "1h" })).id,
    json: (await server.put("evil", { payload: { [SCRIPT]: SCRIPT, big: 1 }, delay: "1h" })).id,
    bidi: (await server.put("evil", { text: BIDI, key: BIDI, delay: "1h" })).id,
    bytes: (await server.put("evil", { base64: Buffer.from([0xff, 0xfe, 0, 0xc3, 0x28, 60, 98, 62]).toString("base64"), delay: "1h" })).id,
    large: (await server.put("evil", { text: `${"<b>".repeat(340000)}end`, delay: "1h" })).id,
    dead: await server.putDead("wicked", { text: "x" }, `${SCRIPT}\n${BIDI}\n${"trace ".repeat(500)}`),
  };
});
after(async () => {
  await browser?.stop();
  await server?.stop();
});

for (const path of ["/", "/jobs", "/errors", "/queues/evil", "/queues/wicked", "/wheel"]) {
  test(`${path} shows hostile text as text`, async () => {
    const page = await browser.open(server, path);
    if (["/", "/wheel"].includes(path)) await liveState(page, "live");
    assert.equal(await page.locator("main script, main svg[onload], main img[onerror]").count(), 0);
    await close(page);
  });
}

test("job pages show every payload harmlessly", async () => {
  for (const [name, id] of Object.entries(ids)) {
    const page = await browser.open(server, `/jobs/${id}`);
    assert.equal(await page.locator("main script, main svg, main img, pre b").count(), 0, name);
    assert.ok(!(await page.content()).includes("\u202e"), name);
    await close(page);
  }
});

test("scripts, direction marks, bytes and large payloads are readable", async () => {
  const page = await browser.open(server, `/jobs/${ids.script}`);
  assert.ok((await page.locator("pre.payload").innerText()).includes("<script>alert(1)</script>"));
  await page.goto(`/jobs/${ids.bidi}`);
  assert.ok((await page.locator("pre.payload").innerText()).includes("⟨U+202E⟩"));
  await page.goto(`/jobs/${ids.bytes}`);
  assert.ok((await page.locator("pre.payload").innerText()).includes("ff fe 00 c3 28 3c 62 3e"));
  await page.goto(`/jobs/${ids.large}`);
  assert.match(await page.locator("main").innerText(), /Only the beginning is shown/);
  const [download] = await Promise.all([page.waitForEvent("download"), page.click("text=Download")]);
  assert.match(download.suggestedFilename(), /\.bin$/);
  await close(page);
});

test("an address cannot make the page say or do something", async () => {
  const evil = encodeURIComponent(SCRIPT);
  const page = await browser.open(server, `/jobs?key=${evil}&error=${evil}&page=${evil}&id=${evil}`);
  assert.equal(await page.inputValue('input[name="key"]'), SCRIPT);
  await page.goto(`/queues?filter=${evil}&done=${evil}&sort=${evil}`);
  assert.equal(await page.locator(".notice").count(), 0);
  await close(page);
});

test("an inline script would not run", async () => {
  const page = await browser.open(server, "/queues");
  const ran = await page.evaluate(() => {
    const script = document.createElement("script");
    script.textContent = "window.ran = true";
    document.body.append(script);
    return window.ran === true;
  });
  assert.equal(ran, false);
  assert.ok(page.problems.some((problem) => problem.includes("Content Security Policy")), page.problems.join());
  await discard(page);
});
