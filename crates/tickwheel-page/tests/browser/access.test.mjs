// Signing in, scopes, and tokens that are removed.

import assert from "node:assert/strict";

import { after, before, Browser, close, discard, liveState, picture, Server, test } from "./rig.mjs";

const admin = { name: "ops", scope: "admin" };
const reader = { name: "watcher", scope: "read", queue: "a-*" };
const gone = { name: "gone", scope: "read" };

let server;
let browser;
before(async () => {
  server = await Server.start({ tokens: [admin, reader, gone] });
  browser = await Browser.start();
  await server.put("a-own", { text: "x", delay: "1h" }, admin.secret);
  await server.put("b-foreign", { text: "x", delay: "1h" }, admin.secret);
});
after(async () => {
  await browser?.stop();
  await server?.stop();
});

async function signIn(path, token, options) {
  const page = await browser.open(server, path, options);
  await page.waitForURL("**/login*");
  await page.fill('input[name="token"]', token.secret);
  await page.click("form.stack button");
  return page;
}

for (const javaScriptEnabled of [true, false]) {
  test(`a token opens the page that was asked for, ${javaScriptEnabled ? "with" : "without"} JavaScript`, async () => {
    const page = await signIn("/queues/a-own", admin, { javaScriptEnabled });
    await page.waitForURL("**/queues/a-own");
    assert.match(await page.locator("footer").innerText(), /Token ops/);
    const [cookie] = (await page.context().cookies()).filter(({ name }) => name === "tickwheel_token");
    assert.deepEqual([cookie.httpOnly, cookie.sameSite], [true, "Strict"]);
    await page.click("footer .who button");
    await page.waitForURL("**/login");
    await page.goto("/queues");
    await page.waitForURL("**/login?*");
    await close(page);
  });
}

test("a wrong token is refused", async () => {
  const page = await browser.open(server, "/login");
  await picture(page, "page-login");
  await page.fill('input[name="token"]', "twk_wrong_token");
  await page.click("form.stack button");
  await page.waitForSelector(".notice.bad");
  await close(page);
});

test("a reader sees its queues and no buttons", async () => {
  const page = await signIn("/queues", reader);
  await page.waitForURL("**/queues");
  const text = await page.locator("body").innerText();
  assert.ok(text.includes("a-own") && !text.includes("b-foreign") && text.includes("read only"));
  await page.goto("/");
  await liveState(page, "live");
  assert.equal(await page.locator('tr[data-queue="b-foreign"]').count(), 0);
  await page.goto("/queues/a-own");
  assert.equal(await page.locator('main form[method="post"] button:not([disabled])').count(), 0);
  assert.ok(await page.locator('input[name="lease"]').isDisabled());
  await page.goto("/queues/b-foreign");
  assert.match(await page.locator(".notice.bad").innerText(), /no scope/);
  await close(page);
});

test("the live page of a removed token asks to sign in", async () => {
  const page = await signIn("/", gone);
  await liveState(page, "live");
  server.removeToken("gone");
  await page.waitForURL("**/login*");
  await discard(page);
});

test("a form of another site changes nothing", async () => {
  const page = await signIn("/queues/a-own", admin);
  await page.waitForURL("**/queues/a-own");
  // Another name of this machine is another site, and gets no cookie.
  const other = server.url.replace("127.0.0.1", "localhost");
  const status = await page.evaluate(async (url) => {
    const answer = await fetch(`${url}/queues/a-own/pause`, { method: "POST", mode: "no-cors" }).catch(() => null);
    return answer?.type ?? "refused";
  }, other);
  assert.ok(["opaque", "refused"].includes(status), status);
  assert.equal((await server.api("GET", "/v1/queues/a-own", undefined, admin.secret)).paused, false);
  await discard(page);
});
