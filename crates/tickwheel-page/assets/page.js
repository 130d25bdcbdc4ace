// What all pages share: times, copy buttons, and the live numbers of pages that have some.

import { follow } from "./live.js";
import { count, duration, rate, refreshTimes, startTimes, texts } from "./show.js";

const page = document.body.dataset.page;

function set(element, text) {
  if (element && element.textContent !== text) element.textContent = text;
}

const rateOf = (rates, name) => (rates ? rate(rates[name]) : texts.no_data);
const spanOf = (millis, none = texts.no_data) => (millis === null ? none : duration(millis));

function showTotals(totals) {
  const values = {
    put: rateOf(totals.rates, "put"),
    acked: rateOf(totals.rates, "acked"),
    failed: rateOf(totals.rates, "failed"),
    lateness: spanOf(totals.lateness_p99_ms),
    scheduled: count(totals.jobs.scheduled),
    ready: count(totals.jobs.ready),
    leased: count(totals.jobs.leased),
    dead: count(totals.jobs.dead),
  };
  for (const [name, value] of Object.entries(values)) {
    set(document.querySelector(`[data-total="${name}"]`), value);
  }
  if (!totals.upcoming) return;
  const names = ["ready", "minute", "hour", "day", "month", "later"];
  const all = names.reduce((sum, name) => sum + totals.upcoming[name], 0);
  for (const name of names) {
    const meter = document.querySelector(`[data-upcoming="${name}"]`);
    if (!meter) continue;
    meter.max = Math.max(all, 1);
    meter.value = totals.upcoming[name];
    set(document.querySelector(`[data-upcoming-count="${name}"]`), count(totals.upcoming[name]));
  }
}

function showHealth(health) {
  const box = document.getElementById("health");
  const lines = health.map((trouble) => trouble.message);
  const text = lines.join("\n");
  if (!box || box.dataset.shown === text) return;
  box.dataset.shown = text;
  box.className = `health ${lines.length ? "bad" : "good"}`;
  if (lines.length === 0) {
    const sentence = document.createElement("p");
    sentence.className = "sentence";
    sentence.textContent = texts.all_on_time;
    box.replaceChildren(sentence);
    return;
  }
  const list = document.createElement("ul");
  for (const line of lines) {
    const item = document.createElement("li");
    item.textContent = line;
    list.append(item);
  }
  box.replaceChildren(list);
}

function fields(queue) {
  return {
    put: rateOf(queue.rates, "put"),
    acked: queue.paused ? texts.paused : rateOf(queue.rates, "acked"),
    failed: rateOf(queue.rates, "failed"),
    scheduled: count(queue.jobs.scheduled),
    ready: count(queue.jobs.ready) + (queue.more_ready ? "+" : ""),
    leased: count(queue.jobs.leased),
    dead: count(queue.jobs.dead),
    done: count(queue.jobs.done),
    cancelled: count(queue.jobs.cancelled),
    held: count(queue.held),
    waiting: spanOf(queue.waiting_ms, "–"),
    lateness: queue.lateness_p99_ms === null ? texts.no_data
      : `${duration(queue.lateness_p50_ms)} / ${duration(queue.lateness_p99_ms)}`,
    workers: queue.workers === null ? texts.no_data : count(queue.workers),
  };
}

function showRow(root, queue) {
  for (const [name, value] of Object.entries(fields(queue))) {
    set(root.querySelector(`[data-field="${name}"]`), value);
  }
  const badge = root.querySelector('.badge[data-field="paused"]');
  if (badge) badge.hidden = !queue.paused;
}

function showQueues(queues) {
  const rows = new Map();
  for (const row of document.querySelectorAll("#queue-table tr[data-queue]")) {
    rows.set(row.dataset.queue, row);
  }
  for (const queue of queues) {
    const row = rows.get(queue.name);
    if (row) showRow(row, queue);
  }
  const isNew = queues.some((queue) => !rows.has(queue.name)) || rows.size > queues.length;
  if (isNew && rows.size > 0 && window.htmx) {
    window.htmx.ajax("GET", "/", { target: "#queue-table", select: "#queue-table", swap: "outerHTML" });
  } else if (isNew && rows.size === 0) {
    location.reload();
  }
}

function startCopying() {
  for (const button of document.querySelectorAll("[data-copy]")) {
    button.hidden = !navigator.clipboard;
  }
  document.addEventListener("click", async (event) => {
    const button = event.target.closest?.("[data-copy]");
    if (!button) return;
    const label = button.textContent;
    await navigator.clipboard.writeText(document.getElementById(button.dataset.copy).textContent);
    button.textContent = texts.copied;
    setTimeout(() => { button.textContent = label; }, 1500);
  });
}

/** "All that match" makes the single boxes moot. */
function startSelection() {
  const all = document.getElementById("select-all");
  all?.addEventListener("change", () => {
    for (const box of document.querySelectorAll('input[name="job"]')) {
      box.checked = all.checked;
      box.disabled = all.checked;
    }
  });
}

async function startLive() {
  const parts = [];
  const canvas = document.querySelector("canvas[data-wheel]");
  if (canvas) {
    const { startWheel } = await import("./wheel.js");
    const wheel = startWheel(canvas);
    parts.push((data) => { if (data.wheel) wheel.show(data.wheel); });
  }
  if (document.querySelector("[data-charts]") && window.uPlot) {
    const { startCharts } = await import("./charts.js");
    const charts = startCharts(document.querySelector("[data-charts]"), document.body.dataset.queue);
    parts.push((data) => charts.add(data.point));
  }
  if (page === "overview") {
    parts.push((data) => {
      if (data.overview.totals) showTotals(data.overview.totals);
      showHealth(data.overview.health);
      showQueues(data.overview.queues);
    });
  }
  if (page === "queue") {
    parts.push((data) => {
      const queue = data.overview.queues.find((one) => one.name === document.body.dataset.queue);
      if (queue) showRow(document, queue);
    });
  }
  follow((data) => parts.forEach((part) => part(data)));
}

startTimes();
startCopying();
startSelection();
document.addEventListener("htmx:afterSettle", (event) => {
  refreshTimes(event.target);
  for (const button of event.target.querySelectorAll?.("[data-copy]") ?? []) {
    button.hidden = !navigator.clipboard;
  }
});
if (page) startLive();
