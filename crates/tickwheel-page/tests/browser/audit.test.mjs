// The audit log: one line for each change that a page makes, with its token, subject and count.
//
// The last check compares the forms of all pages that were shown with those that were sent, so a new
// action needs a line here.

import assert from "node:assert/strict";

import { after, before, Browser, close, Server, test, until } from "./rig.mjs";

const admin = { name: "ops", scope: "admin,produce,consume,read" };

let server;
let browser;
let page;
const shown = new Set();
const sent = new Set();

/** The kind of a form: its path without names and ids, and the button. */
function kind(path, button) {
  const place = path.replace(/^\/jobs\/[0-9a-f-]{36}\//, "/jobs/*/").replace(/^\/(queues|schedules|targets)\/[^/]+\//, "/$1/*/");
  return button ? `${place} ${button}` : place;
}

const api = (method, path, body) => server.api(method, path, body, admin.secret);
const put = (queue, job) => server.put(queue, job, admin.secret);

async function dead(queue, error) {
  await put(queue, { text: "x" });
  const { deliveries: [{ token, job: { id } }] } = await api("POST", `/v1/queues/${queue}/reserve`, { wait: "20s" });
  await api("POST", `/v1/jobs/${id}/fail`, { token, error, dead: true });
  return id;
}

async function done(queue) {
  await api("PATCH", `/v1/queues/${queue}/settings`, { retention: { done: { count: 100 } } });
  await put(queue, { text: "x" });
  const { deliveries: [{ token, job: { id } }] } = await api("POST", `/v1/queues/${queue}/reserve`, { wait: "20s" });
  await api("POST", `/v1/jobs/${id}/ack`, { token });
}

async function cancelled(queue) {
  await api("PATCH", `/v1/queues/${queue}/settings`, { retention: { cancelled: { count: 100 } } });
  const { id } = await put(queue, { text: "x", delay: "1h" });
  await api("DELETE", `/v1/jobs/${id}`);
}

/** Shows a page, and remembers its forms. */
async function visit(path) {
  await page.goto(path);
  await remember();
}

async function remember() {
  const forms = await page.evaluate(() => [...document.querySelectorAll('form[method="post"]')].flatMap((form) => {
    const buttons = [...form.querySelectorAll("button[name]")].map((button) => `${button.name}=${button.value}`);
    return (buttons.length ? buttons : [""]).map((button) => [form.getAttribute("action"), button]);
  }));
  for (const [path, button] of forms) shown.add(kind(path, button));
}

/** Presses a button, and answers the question that follows, if there is one. */
async function press(selector) {
  const button = page.locator(selector).first();
  await Promise.all([page.waitForEvent("framenavigated"), button.click()]);
  await page.waitForLoadState("load");
  await remember();
}

const unpainted = (text) => text.replace(/\u001b\[[0-9;]*m/g, "");

/** The lines of the audit log. */
function lines() {
  const found = unpainted(server.log).matchAll(/audit.* token="([^"]*)" action="([^"]*)" subject="([^"]*)" count=(\d+)/g);
  return [...found].map(([, token, action, subject, count]) => ({ token, action, subject, count: Number(count) }));
}

/** Waits for the line of a change. */
async function logged(action, subject, count = 1) {
  const wanted = { token: admin.id, action, subject, count };
  await until(async () => lines().some((line) => JSON.stringify(line) === JSON.stringify(wanted)), `${JSON.stringify(wanted)} in the log, which has ${JSON.stringify(lines())}`);
}

before(async () => {
  server = await Server.start({ tokens: [admin], args: ["--push-allow", "127.0.0.0/8"] });
  [, admin.id] = /^twk_([^_]+)_/.exec(admin.secret);
  browser = await Browser.start();
  page = await browser.open(server, "/login");
  page.on("request", (request) => {
    if (request.method() !== "POST") return;
    const fields = new URLSearchParams(request.postData() ?? "");
    for (const name of ["action", "do", "paused"]) {
      if (fields.has(name)) sent.add(kind(new URL(request.url()).pathname, `${name}=${fields.get(name)}`));
    }
    sent.add(kind(new URL(request.url()).pathname));
  });
});
after(async () => {
  await browser?.stop();
  await server?.stop();
});

test("signing in is logged", async () => {
  await page.fill('input[name="token"]', admin.secret);
  await press("form.stack button");
  await logged("login", admin.id);
});

test("changes to a queue are logged", async () => {
  await put("mail", { text: "x", delay: "1h" });
  await visit("/queues/mail");
  await press('form[action="/queues/mail/pause"] button');
  await logged("queue.pause", "mail");
  await press('form[action="/queues/mail/resume"] button');
  await logged("queue.resume", "mail");
  await press('form[action="/queues/mail/settings"] button');
  await logged("queue.settings", "mail");
});

test("what empties a queue is logged with the number of jobs", async () => {
  for (const error of ["a", "b"]) await dead("kicked", error);
  for (const error of ["a", "b", "c"]) await dead("removed", error);
  await done("removed");
  for (let job = 0; job < 2; job += 1) await cancelled("removed");
  for (const delay of ["1h", "2h"]) await put("waiting", { text: "x", delay });
  for (const [queue, action, count] of [
    ["kicked", "kick", 2], ["removed", "remove-dead", 3], ["removed", "remove-done", 1],
    ["removed", "remove-cancelled", 2], ["waiting", "cancel-waiting", 2],
  ]) {
    await visit(`/queues/${queue}`);
    await press(`button[value="${action}"]`);
    await press("button.danger");
    await logged(`queue.${action}`, queue, count);
  }
  await put("gone", { text: "x", delay: "1h" });
  await visit("/queues/gone");
  await press('button[value="remove"]');
  await press("button.danger");
  await logged("queue.remove", "gone", 1);
});

test("changes to a group are logged", async () => {
  await put("tenants", { text: "x", group: "acme" });
  await visit("/queues/tenants");
  await press('form[action="/queues/tenants/groups"] button');
  await logged("group.pause", "tenants/acme");
  await press('form[action="/queues/tenants/groups"] button');
  await logged("group.resume", "tenants/acme");
});

test("changes to a job are logged", async () => {
  await visit("/put");
  await page.fill('input[name="queue"]', "jobs");
  await page.fill('input[name="delay"]', "1h");
  await page.fill('textarea[name="payload"]', "{}");
  await press('button[value="put"]');
  const id = await page.locator(".notice code").innerText();
  await logged("job.put", id);
  await visit(`/jobs/${id}`);
  await page.fill('input[name="delay"]', "2h");
  for (const action of ["reschedule", "run", "cancel"]) {
    await press(`form[action="/jobs/${id}/${action}"] button`);
    await logged(`job.${action}`, id);
  }
  const failed = await dead("jobs", "no");
  await visit(`/jobs/${failed}`);
  await press(`form[action="/jobs/${failed}/retry"] button`);
  await logged("job.retry", failed);
});

test("changes to selected jobs are logged with each id, and those to all that match with their filter", async () => {
  for (const action of ["reschedule", "run", "cancel", "retry"]) {
    const queue = `bulk-${action}`;
    const ids = [];
    for (let job = 0; job < 3; job += 1) {
      ids.push(action === "retry" ? await dead(queue, "no") : (await put(queue, { text: "x", delay: "1h" })).id);
    }
    const ask = async (choose) => {
      await visit(`/jobs?queue=${queue}`);
      await choose();
      if (action === "reschedule") await page.fill('.toolbar input[name="delay"]', "3h");
      await press(`.toolbar button[value="${action}"]`);
      await press("button.danger");
    };
    await ask(() => page.check(`input[name="job"][value="${ids[0]}"]`));
    await logged(`jobs.${action}`, ids[0]);
    // What was run, retried or cancelled does not match any more.
    const filter = action === "retry" ? `/jobs?queue=${queue}&state=dead` : `/jobs?queue=${queue}&state=scheduled`;
    await visit(filter);
    await page.check("#select-all");
    if (action === "reschedule") await page.fill('.toolbar input[name="delay"]', "4h");
    await press(`.toolbar button[value="${action}"]`);
    await press("button.danger");
    await logged(`jobs.${action}`, filter, action === "reschedule" ? 3 : 2);
  }
});

test("changes to a schedule are logged", async () => {
  await visit("/schedules");
  await page.fill('input[name="name"]', "beat");
  await page.fill('input[name="queue"]', "mail");
  await page.fill('input[name="every"]', "1h");
  await page.fill('textarea[name="payload"]', "beat");
  await press('button[value="save"]');
  await logged("schedule.put", "beat");
  for (const action of ["pause", "resume"]) {
    await press(`form[action="/schedules/beat/${action}"] button`);
    await logged(`schedule.${action}`, "beat");
  }
  await press("#schedule-beat button.danger");
  await press("button.danger");
  await logged("schedule.remove", "beat");
});

test("changes to a target are logged", async () => {
  await api("PUT", "/v1/targets/partner", { url: "http://127.0.0.1:9/hook" });
  for (const action of ["pause", "resume", "test"]) {
    await visit("/targets");
    await press(`form[action="/targets/partner/${action}"] button`);
    await logged(`target.${action}`, "partner");
  }
});

test("signing out is logged", async () => {
  await visit("/queues");
  await press("footer .who button");
  await logged("logout", admin.id);
});

test("every form that a page shows was sent", async () => {
  // These change nothing on the server.
  const harmless = ["/preferences", "/put do=preview", "/schedules do=check"];
  const unsent = [...shown].filter((form) => !sent.has(form) && !harmless.includes(form));
  assert.deepEqual(unsent, []);
  assert.ok(shown.size >= 30, `only ${shown.size} forms were seen: ${[...shown].join(", ")}`);
  await close(page);
});
