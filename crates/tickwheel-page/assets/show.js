// Numbers, durations and times, written as the server writes them.

export const texts = JSON.parse(document.body.dataset.texts || "{}");
const language = document.documentElement.lang;
const times = document.body.dataset.times || "relative";

/** The difference between the server's clock and this machine's, in milliseconds. */
let offset = Number(document.body.dataset.now || Date.now()) - Date.now();

export const now = () => Date.now() + offset;

export function setClock(serverNow) {
  const seen = serverNow - Date.now();
  // A message that was delayed for a moment must not make a hand jump.
  offset = Math.abs(seen - offset) > 1500 ? seen : offset + (seen - offset) * 0.1;
}

export function count(number) {
  return String(Math.round(number)).replace(/\B(?=(\d{3})+(?!\d))/g, "\u202f");
}

export function rate(number) {
  if (number <= 0) return "0";
  if (number < 10) return number.toFixed(2);
  if (number < 100) return number.toFixed(1);
  return count(number);
}

export function duration(millis) {
  if (millis < 1000) return `${Math.floor(millis)} ms`;
  if (millis < 10000) {
    const tenths = Math.floor(millis / 100);
    return tenths % 10 === 0 ? `${tenths / 10} s` : `${(tenths / 10).toFixed(1)} s`;
  }
  if (millis < 60000) return `${Math.floor(millis / 1000)} s`;
  const units = [[86400000, "d"], [3600000, "h"], [60000, "min"], [1000, "s"]];
  for (let place = 0; place < 3; place += 1) {
    const [length, unit] = units[place];
    const whole = Math.floor(millis / length);
    if (whole === 0) continue;
    const [nextLength, nextUnit] = units[place + 1];
    const rest = Math.floor((millis % length) / nextLength);
    return rest === 0 || whole >= 10 ? `${whole} ${unit}` : `${whole} ${unit} ${rest} ${nextUnit}`;
  }
  return "";
}

export function fill(text, values) {
  return text.replace(/\{(\w*)\}/g, (whole, name) => values[name] ?? whole);
}

const local = new Intl.DateTimeFormat(language, { dateStyle: "medium", timeStyle: "medium" });
const clock = new Intl.DateTimeFormat(language, {
  hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23",
  timeZone: times === "utc" ? "UTC" : undefined,
});

export const clockTime = (millis) => clock.format(millis);

function relative(millis) {
  const distance = Math.abs(millis - now());
  if (distance < 1000) return texts.now;
  const span = duration(Math.floor(distance / 1000) * 1000);
  return fill(millis > now() ? texts.time_in : texts.time_ago, { "": span });
}

export function time(millis) {
  if (times === "local") return local.format(millis);
  if (times === "utc") return `${new Date(millis).toISOString().slice(0, 19).replace("T", " ")} UTC`;
  return relative(millis);
}

/** Rewrites the times of the page: relative ones move on, local ones need this machine's zone. */
export function refreshTimes(root = document) {
  if (times === "utc") return;
  for (const element of root.querySelectorAll("time[data-ms]")) {
    const text = time(Number(element.dataset.ms));
    if (element.textContent !== text) element.textContent = text;
  }
}

export function startTimes() {
  refreshTimes();
  if (times === "relative") {
    setInterval(() => { if (!document.hidden) refreshTimes(); }, 1000);
  }
}
