// Charts of the last minutes or hours. Columns come from the server in the layout of uPlot.

import { clockTime, count, duration, rate, texts } from "./show.js";

const HEIGHT = 170;
/** The least height of a scale, so that small numbers look small. */
const LEAST = { rate: 1, ms: 10, count: 4, percent: 100 };
/** The charts of one queue are read again this often; those of all queues get each new point. */
const REFRESH_MS = 10000;

const KINDS = [
  { title: "rates", unit: "rate", series: [["put", "--cold"], ["delivered", "--muted"], ["acked", "--good"]] },
  { title: "lateness", unit: "ms", series: [["lateness_p50_ms", "--good", "p50"], ["lateness_p99_ms", "--accent", "p99"], ["lateness_max_ms", "--bad", "max"]] },
  {
    title: "depth",
    unit: "count",
    // Millions may be scheduled while a few are ready, so they have an axis of their own.
    series: [["ready", "--accent"], ["leased", "--cold"], ["dead", "--bad"], ["scheduled", "--muted", undefined, "right"]],
  },
  { title: "failures", unit: "count", series: [["failed", "--warn"], ["died", "--bad"]] },
  { title: "pacing", unit: "percent", series: [["pacing_utilisation", "--accent", "%"]], optional: true },
];

/** The dashes of the series of a chart, in order: they differ without colours, too. */
const DASHES = [undefined, [5, 3], [2, 2], [9, 4]];

const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

/** A computed colour: custom properties may hold functions that a canvas does not know. */
function resolved(name) {
  const probe = document.createElement("i");
  probe.style.color = colour(name);
  document.body.append(probe);
  const value = getComputedStyle(probe).color;
  probe.remove();
  return value;
}

function label(entry) {
  const [name, , given] = entry;
  return given ?? texts[name] ?? name;
}

function format(unit, value) {
  if (value === null || value === undefined) return "–";
  if (unit === "ms") return duration(value);
  if (unit === "rate") return rate(value);
  if (unit === "percent") return `${Math.round(value)} %`;
  return count(value);
}

export function startCharts(root, queue) {
  const grid = root.querySelector(".chart-grid");
  let window15 = true;
  let history = null;
  let plots = [];

  function column(kind, name) {
    const values = history[name];
    if (kind.unit === "rate") return values.map((it) => (it === null ? null : it / (history.step_ms / 1000)));
    if (kind.unit === "percent") return values.map((it) => (it === null ? null : it * 100));
    return values;
  }

  const data = (kind) => [history.at_ms.map((at) => at / 1000), ...kind.series.map(([name]) => column(kind, name))];

  function plot(kind) {
    const box = document.createElement("div");
    box.className = "chart";
    const title = document.createElement("h3");
    title.textContent = texts[kind.title];
    box.append(title);
    grid.append(box);
    const axis = { stroke: resolved("--muted"), grid: { stroke: resolved("--line"), width: 1 }, ticks: { show: false }, font: "11px system-ui" };
    const compact = new Intl.NumberFormat("en", { notation: "compact" });
    const ticks = (_, values) => values.map((value) => (kind.unit === "ms" ? duration(value) : compact.format(value)));
    const axes = [{ ...axis, space: 70, values: (_, values) => values.map((at) => clockTime(at * 1000).slice(0, window15 ? 8 : 5)) }, { ...axis, size: 58, values: ticks }];
    const scale = { range: (_, low, high) => [0, Math.max(high ?? 0, LEAST[kind.unit]) * 1.05] };
    const scales = { y: scale };
    if (kind.series.some((entry) => entry[3] === "right")) {
      scales.right = scale;
      axes.push({ ...axis, size: 48, scale: "right", side: 1, grid: { show: false }, values: ticks });
    }
    const options = {
      width: box.clientWidth - 26,
      height: HEIGHT,
      cursor: { y: false, sync: { key: "tickwheel" } },
      scales,
      axes,
      series: [
        { label: texts.time, value: (_, at) => (at === null ? texts.now : clockTime(at * 1000)) },
        ...kind.series.map((entry, place) => ({
          label: label(entry),
          scale: entry[3] ?? "y",
          stroke: resolved(entry[1]),
          width: 1.6,
          dash: DASHES[place],
          points: { show: false },
          // While no pointer is over the chart, the legend has the newest values.
          value: (it, value, series, place) => format(kind.unit, place === null ? it.data[series].at(-1) : value),
        })),
      ],
    };
    const made = new window.uPlot(options, data(kind), box);
    // The drawing is for the eye; the numbers are in the legend and the tables.
    made.root.querySelector("canvas")?.setAttribute("aria-hidden", "true");
    return { kind, made, box };
  }

  function draw() {
    plots.forEach(({ made }) => made.destroy());
    grid.replaceChildren();
    plots = [];
    root.hidden = false;
    if (!history.tracked) {
      const note = document.createElement("p");
      note.className = "muted";
      note.textContent = texts.no_history;
      grid.append(note);
      return;
    }
    const wanted = KINDS.filter((kind) => !kind.optional
      || kind.series.some(([name]) => history[name].some((value) => value !== null)));
    plots = wanted.map(plot);
  }

  async function load(again) {
    const query = new URLSearchParams({ window: window15 ? "15m" : "24h" });
    if (queue) query.set("queue", queue);
    const answer = await fetch(`/page/history?${query}`, { cache: "no-store" }).catch(() => null);
    if (!answer?.ok) return;
    history = await answer.json();
    if (again && plots.length > 0) plots.forEach(({ kind, made }) => made.setData(data(kind)));
    else draw();
  }

  for (const button of root.querySelectorAll("[data-window]")) {
    button.addEventListener("click", () => {
      window15 = button.dataset.window === "15m";
      for (const other of root.querySelectorAll("[data-window]")) {
        other.setAttribute("aria-pressed", String(other === button));
      }
      load(false);
    });
  }
  new ResizeObserver(() => plots.forEach(({ made, box }) => {
    made.setSize({ width: box.clientWidth - 26, height: HEIGHT });
  })).observe(grid);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { if (history) draw(); });
  setInterval(() => { if (!document.hidden && (queue || !window15)) load(true); }, REFRESH_MS);
  load(false);

  return {
    /** Adds the newest second of all queues. */
    add(point) {
      if (!point || !history || queue || !window15 || point.at_ms.length === 0) return;
      const [at] = point.at_ms;
      if (at <= history.at_ms[history.at_ms.length - 1]) return;
      for (const [name, values] of Object.entries(point)) {
        if (!Array.isArray(values) || !Array.isArray(history[name])) continue;
        history[name].push(values[0]);
        if (history[name].length > 900) history[name].shift();
      }
      plots.forEach(({ kind, made }) => made.setData(data(kind)));
    },
  };
}
