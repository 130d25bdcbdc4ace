// Every action in a real browser, checked through the API.

import assert from "node:assert/strict";

import { after, before, Browser, close, seeded, test, until } from "./rig.mjs";

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

const notice = (page) => page.locator(".notice").first().innerText();

for (const javaScriptEnabled of [true, false]) {
  const how = javaScriptEnabled ? "with" : "without";

  test(`a queue is paused, resumed and changed ${how} JavaScript`, async () => {
    const page = await browser.open(server, "/queues/mail", { javaScriptEnabled });
    await page.click('form[action="/queues/mail/pause"] button');
    assert.equal(await notice(page), "Paused.");
    assert.equal((await server.api("GET", "/v1/queues/mail")).paused, true);
    await page.click('form[action="/queues/mail/resume"] button');
    assert.equal(await notice(page), "Resumed.");
    await page.fill('input[name="max_attempts"]', "7");
    await page.fill('input[name="rate"]', "50/1s");
    await page.click('form[action="/queues/mail/settings"] button');
    assert.equal(await notice(page), "Saved.");
    const { settings } = await server.api("GET", "/v1/queues/mail");
    assert.deepEqual([settings.max_attempts, settings.pacing.starts], [7, 50]);
    await page.fill('input[name="lease"]', "soon");
    await page.click('form[action="/queues/mail/settings"] button');
    assert.match(await notice(page), /lease/);
    assert.equal(await page.inputValue('input[name="lease"]'), "soon");
    await close(page);
  });

  test(`a job is rescheduled, run and cancelled ${how} JavaScript`, async () => {
    const { id } = await server.put("moves", { text: "x", delay: "1h", key: `k-${how}` });
    const page = await browser.open(server, `/jobs/${id}`, { javaScriptEnabled });
    await page.fill('input[name="delay"]', "3h");
    await page.click(`form[action="/jobs/${id}/reschedule"] button`);
    assert.match(await notice(page), /rescheduled/);
    const due = (await server.api("GET", `/v1/jobs/${id}`)).due_ms;
    assert.ok(due > Date.now() + 2 * 3600 * 1000);
    await page.click(`form[action="/jobs/${id}/run"] button`);
    assert.equal((await server.api("GET", `/v1/jobs/${id}`)).state, "ready");
    await page.click(`form[action="/jobs/${id}/cancel"] button`);
    assert.match(await notice(page), /cancelled/);
    await assert.rejects(server.api("GET", `/v1/jobs/${id}`), / 404 /);
    await close(page);
  });

  test(`a form puts a job and shows equivalent commands ${how} JavaScript`, async () => {
    const page = await browser.open(server, "/put", { javaScriptEnabled });
    await page.fill('input[name="queue"]', "forms");
    await page.fill('input[name="delay"]', "45m");
    await page.fill('input[name="key"]', `form-${how}`);
    await page.fill('textarea[name="payload"]', '{"big": 12345678901234567890123}');
    if (!javaScriptEnabled) await page.click('button[value="preview"]');
    const cli = page.locator("#cli");
    await cli.waitFor({ state: "visible" });
    await until(async () => (await cli.innerText()).includes("--delay 45m"), "the command has the delay");
    assert.match(await page.locator("#curl").innerText(), /curl .*\/v1\/queues\/forms\/jobs/);
    await page.click('button[value="put"]');
    await page.locator('.notice a[href^="/jobs/"]').click();
    assert.match(await page.locator("pre.payload").innerText(), /"big": 12345678901234567890123/);
    await close(page);
  });

  test(`dead jobs are removed after a question that names their number ${how} JavaScript`, async () => {
    for (let job = 0; job < 2; job += 1) await server.putDead("graves", { text: "x" }, "no");
    const page = await browser.open(server, "/queues/graves", { javaScriptEnabled });
    await page.click('button[value="remove-dead"]');
    assert.match(await page.locator(".question").innerText(), /Remove 2 dead jobs of graves/);
    await page.click("button.danger");
    assert.match(await notice(page), /2 jobs removed/);
    assert.equal((await server.api("GET", "/v1/queues/graves")).jobs.dead, 0);
    await close(page);
  });
}

test("a dead job shows why it died, and is retried", async () => {
  const id = await server.putDead("retries", { payload: { a: 1 } }, "connection refused");
  const page = await browser.open(server, `/jobs/${id}`);
  const text = await page.locator("main").innerText();
  assert.match(text, /connection refused/);
  assert.match(text, /Attempt 1/);
  await page.click(`form[action="/jobs/${id}/retry"] button`);
  assert.equal((await server.api("GET", `/v1/jobs/${id}`)).state, "ready");
  await close(page);
});

test("jobs are found by id, key, prefix, state and due time", async () => {
  const page = await browser.open(server, "/jobs");
  const { id } = await server.api("GET", "/v1/queues/orders/keys/order-39");
  await page.fill('input[name="id"]', `${id.replaceAll("-", "").slice(0, 12)}..${id.slice(-6)}`);
  await page.click(".search button.primary");
  await page.waitForURL(`**/jobs/${id}`);
  for (const [field, value] of [["key", "order-39"], ["key_prefix", "order-3"]]) {
    await page.goto("/jobs");
    await page.fill(`input[name="${field}"]`, value);
    await page.click(".search button.primary");
    await page.waitForSelector(`a[href="/jobs/${id}"]`);
  }
  await page.goto("/jobs");
  await page.selectOption('select[name="queue"]', "billing");
  await page.selectOption('select[name="state"]', "dead");
  await page.click(".search button.primary");
  assert.equal(await page.locator("tbody tr").count(), 3);
  await close(page);
});

test("jobs are found by the range of their due time", async () => {
  const day = 24 * 3600 * 1000;
  const start = Date.UTC(2041, 0, 1);
  for (let job = 0; job < 5; job += 1) await server.put("calendar", { text: "x", due: start + job * day, key: `day-${job}` });
  const page = await browser.open(server, "/jobs");
  const found = async (from, to) => {
    await page.goto("/jobs");
    await page.selectOption('select[name="queue"]', "calendar");
    await page.fill('input[name="due_from"]', from);
    await page.fill('input[name="due_to"]', to);
    await page.click(".search button.primary");
    await page.waitForURL(/queue=calendar/);
    assert.equal(await page.inputValue('input[name="due_from"]'), from);
    assert.equal(await page.inputValue('input[name="due_to"]'), to);
    return (await page.locator("tbody td bdi").allInnerTexts()).filter((text) => text.startsWith("day-")).sort();
  };
  assert.deepEqual(await found("2041-01-02T00:00:00Z", "2041-01-04T00:00:00Z"), ["day-1", "day-2", "day-3"]);
  assert.deepEqual(await found("2041-01-04T00:00:00Z", ""), ["day-3", "day-4"]);
  assert.deepEqual(await found("", String(start)), ["day-0"]);
  assert.deepEqual(await found("2041-01-01T00:00:00.001Z", "2041-01-01T23:59:59Z"), []);
  await page.fill('input[name="due_from"]', "tomorrow");
  await page.click(".search button.primary");
  assert.match(await page.locator(".notice.bad").innerText(), /tomorrow|due_from/);
  await close(page);
});

test("selected jobs are cancelled after a question", async () => {
  for (let job = 0; job < 3; job += 1) await server.put("picked", { text: "x", delay: "1h" });
  const page = await browser.open(server, "/jobs?queue=picked");
  await page.locator('input[name="job"]').nth(0).check();
  await page.locator('input[name="job"]').nth(1).check();
  await page.click('button[value="cancel"]');
  assert.equal(await page.locator(".question").innerText(), "Cancel 2 jobs?");
  await page.click("button.danger");
  await page.waitForSelector("progress");
  assert.match(await page.locator(".question").innerText(), /2 of 2 jobs cancelled/);
  assert.equal((await server.api("GET", "/v1/queues/picked")).jobs.scheduled, 1);
  await close(page);
});

for (const javaScriptEnabled of [true, false]) {
  test(`all jobs that match are changed in steps, ${javaScriptEnabled ? "with" : "without"} JavaScript`, async () => {
    const queue = javaScriptEnabled ? "many" : "many-more";
    const jobs = [];
    for (let job = 0; job < 2500; job += 1) jobs.push({ queue, text: "x", delay: "1h", key: `${job % 5 === 0 ? "odd" : "even"}-${job}` });
    await server.api("POST", "/v1/jobs/batch", { items: jobs });
    const page = await browser.open(server, `/jobs?queue=${queue}&key_prefix=even-`, { javaScriptEnabled });
    await page.check("#select-all");
    await page.click('button[value="run"]');
    assert.equal((await page.locator(".question").innerText()).replace(/\s/g, " "), "Run 2 000 jobs now?");
    await page.click("button.danger");
    await page.waitForSelector("text=2\u202f000 of 2\u202f000 jobs set to run now");
    const { jobs: counts } = await server.api("GET", `/v1/queues/${queue}`);
    assert.deepEqual([counts.scheduled, counts.ready], [500, 2000]);
    await close(page);
  });
}

test("selected jobs are rescheduled, and those that cannot be are skipped", async () => {
  for (let job = 0; job < 2; job += 1) await server.put("later", { text: "x", delay: "1h" });
  await server.putDead("later", { text: "x" }, "no");
  const page = await browser.open(server, "/jobs?queue=later");
  for (const box of await page.locator('input[name="job"]').all()) await box.check();
  await page.fill('.toolbar input[name="delay"]', "5h");
  const before = Date.now();
  await page.click('button[value="reschedule"]');
  assert.equal(await page.locator(".question").innerText(), "Reschedule 3 jobs?");
  await page.click("button.danger");
  assert.match(await page.locator(".question").innerText(), /2 of 3 jobs rescheduled/);
  const { jobs } = await server.api("GET", "/v1/queues/later/jobs?state=scheduled");
  const hours = jobs.map((job) => Math.floor((job.due_ms - before) / 3_600_000));
  assert.deepEqual(hours, [5, 5]);
  await close(page);
});

for (const javaScriptEnabled of [true, false]) {
  const how = javaScriptEnabled ? "with" : "without";
  test(`all jobs that match are rescheduled to one time, step by step, ${how} JavaScript`, async () => {
    // A request without scripts does 20 steps at once, and a queue is a step at least.
    const items = [];
    for (let queue = 10; queue < 35; queue += 1) items.push({ queue: `moved-${queue}`, text: "x", delay: "1h", key: `moved-${how}` });
    await server.api("POST", "/v1/jobs/batch", { items });
    const page = await browser.open(server, `/jobs?key=moved-${how}`, { javaScriptEnabled });
    await page.check("#select-all");
    await page.fill('.toolbar input[name="delay"]', "2d");
    await page.click('button[value="reschedule"]');
    assert.equal(await page.locator(".question").innerText(), "Reschedule 25 jobs?");
    await page.click("button.danger");
    if (!javaScriptEnabled) {
      const done = async () => Number(/^(\d+) of 25/.exec(await page.locator(".question").innerText())[1]);
      assert.ok((await done()) < 25, "one request did everything");
      while ((await done()) < 25) await page.click("#bulk-form button");
    }
    await page.waitForSelector("text=25 of 25 jobs rescheduled");
    const due = new Set();
    for (const { queue } of items) due.add((await server.api("GET", `/v1/queues/${queue}/keys/moved-${how}`)).due_ms);
    assert.equal(due.size, 1, "all have the same due time");
    assert.ok([...due][0] > Date.now() + 47 * 3_600_000);
    await close(page);
  });

  test(`waiting jobs of a queue are cancelled, and the queue is removed, ${how} JavaScript`, async () => {
    const queue = `emptied-${how}`;
    for (const delay of ["1h", "2h", "0s"]) await server.put(queue, { text: "x", delay });
    const page = await browser.open(server, `/queues/${queue}`, { javaScriptEnabled });
    await page.click('button[value="cancel-waiting"]');
    assert.match(await page.locator(".question").innerText(), new RegExp(`3 .*${queue}`));
    await page.click("button.danger");
    assert.match(await notice(page), /3 jobs cancelled/);
    const { jobs } = await server.api("GET", `/v1/queues/${queue}`);
    assert.deepEqual([jobs.scheduled, jobs.ready], [0, 0]);
    await server.put(queue, { text: "x", delay: "1h" });
    await page.click('button[value="remove"]');
    // The link beside the button keeps the queue.
    await page.click(".actions a.button");
    await page.waitForURL(`**/queues/${queue}`);
    await page.click('button[value="remove"]');
    assert.match(await page.locator(".question").innerText(), new RegExp(queue));
    await page.click("button.danger");
    await page.waitForURL(/\/queues\?/);
    assert.match(await notice(page), /removed/);
    await assert.rejects(server.api("GET", `/v1/queues/${queue}`), / 404 /);
    await close(page);
  });

  test(`a schedule is paused and resumed ${how} JavaScript`, async () => {
    await server.api("PUT", `/v1/schedules/pause-${how}`, { queue: "mail", every: "1h", text: "beat" });
    const page = await browser.open(server, "/schedules", { javaScriptEnabled });
    const card = page.locator(`#schedule-pause-${how}`);
    assert.equal(await card.locator(".badge.warn").count(), 0);
    await card.locator(`form[action="/schedules/pause-${how}/pause"] button`).click();
    assert.equal(await notice(page), "Paused.");
    assert.equal(await card.locator(".badge.warn").innerText(), "paused");
    assert.equal((await server.api("GET", `/v1/schedules/pause-${how}`)).paused, true);
    assert.equal(await card.locator(".runs").count(), 0);
    await card.locator(`form[action="/schedules/pause-${how}/resume"] button`).click();
    assert.equal(await notice(page), "Resumed.");
    assert.equal((await server.api("GET", `/v1/schedules/pause-${how}`)).paused, false);
    assert.ok((await card.locator(".runs li").count()) > 0);
    await close(page);
  });
}

test("errors are grouped, and a group is retried at once", async () => {
  for (let job = 0; job < 3; job += 1) await server.putDead("wires", { text: "x" }, `line ${100 + job} is dead`);
  await server.putDead("wires", { text: "x" }, "another reason");
  const page = await browser.open(server, "/errors?queue=wires");
  const row = page.locator("tr", { hasText: "line # is dead" });
  assert.equal(await row.locator("td.num").first().innerText(), "3");
  await row.locator("text=Show").click();
  assert.equal(await page.locator("tbody tr").count(), 3);
  await page.goto("/errors?queue=wires");
  await page.locator("tr", { hasText: "line # is dead" }).locator("text=Retry").click();
  assert.equal(await page.locator(".question").innerText(), "Retry 3 jobs?");
  await page.click("button.danger");
  await page.waitForSelector("text=3 of 3 jobs retried");
  const { jobs } = await server.api("GET", "/v1/queues/wires");
  assert.deepEqual([jobs.ready, jobs.dead], [3, 1]);
  await close(page);
});

test("finished jobs are found by key and by error", async () => {
  const page = await browser.open(server, "/jobs?key=invoice-1");
  assert.equal(await page.locator("tbody tr").count(), 1);
  await page.goto("/jobs?error=DECLINED");
  assert.equal(await page.locator("tbody tr").count(), 3);
  await close(page);
});

test("queues are sorted and filtered while typing", async () => {
  const page = await browser.open(server, "/queues");
  await page.fill("#filter", "bill");
  await page.waitForFunction(() => document.querySelectorAll("#queues tbody tr").length === 1);
  await page.goto("/queues?sort=scheduled");
  const { queues } = await server.api("GET", "/v1/queues");
  const [fullest] = queues.sort((one, other) => other.jobs.scheduled - one.jobs.scheduled);
  assert.equal(await page.locator("tbody th a").first().innerText(), fullest.name);
  await close(page);
});

test("a group is paused", async () => {
  await server.put("tenants", { text: "x", group: "acme & <co>" });
  const page = await browser.open(server, "/queues/tenants");
  await page.click('form[action="/queues/tenants/groups"] button');
  assert.equal(await notice(page), "Paused.");
  const { groups } = await server.api("GET", "/v1/queues/tenants/groups");
  assert.deepEqual([groups[0].name, groups[0].paused], ["acme & <co>", true]);
  await close(page);
});

test("a cron expression is explained while it is typed, and becomes a schedule", async () => {
  const page = await browser.open(server, "/schedules");
  await page.fill('input[name="cron"]', "0 9 * * MO");
  await page.waitForSelector("#cron-check .notice.bad");
  await page.fill('input[name="timezone"]', "Asia/Shanghai");
  await page.fill('input[name="cron"]', "30 8 * * MON");
  await page.waitForSelector("#cron-check .runs");
  assert.match(await page.locator("#cron-check .runs li").first().innerText(), /Mon .* 08:30:00 CST/);
  await page.fill('input[name="name"]', "weekly");
  await page.fill('input[name="queue"]', "mail");
  await page.fill('textarea[name="payload"]', "hello");
  await page.click('button[value="save"]');
  await page.waitForSelector("#schedule-weekly");
  assert.equal((await server.api("GET", "/v1/schedules/weekly")).timezone, "Asia/Shanghai");
  await page.click("#schedule-weekly form button.danger");
  await page.click("button.danger");
  assert.match(await notice(page), /removed/);
  await close(page);
});

test("a target is tested, paused and resumed", async () => {
  const page = await browser.open(server, "/targets");
  await page.click('form[action="/targets/partner/test"] button');
  await page.waitForSelector("text=Test of partner");
  await page.goto("/targets");
  await page.click('form[action="/targets/partner/pause"] button');
  assert.equal((await server.api("GET", "/v1/targets/partner")).state, "paused");
  await page.click('form[action="/targets/partner/resume"] button');
  assert.notEqual((await server.api("GET", "/v1/targets/partner")).state, "paused");
  await close(page);
});
