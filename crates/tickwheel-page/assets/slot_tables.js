// The counts of the wheel as tables, for screen readers.

import { count, time } from "./show.js";

function cell(text, className = "num") {
  const made = document.createElement("td");
  made.className = className;
  made.textContent = text;
  return made;
}

/** Returns a function that shows counts in the tables. */
export function startTables() {
  const slots = document.querySelector("#wheel-slots tbody");
  const link = document.querySelector("#wheel-slots")?.dataset.show ?? "";
  let refreshed = 0;

  function listSlots(wheel) {
    const rows = wheel.levels.flatMap((level) => level.occupied.map((slot, place) => {
      const first = level.start_ms + slot * level.slot_ms;
      return { level: level.level, slot, first, last: first + level.slot_ms - 1, jobs: level.jobs[place], leases: level.leases[place] };
    }));
    rows.sort((one, other) => one.first - other.first);
    slots.replaceChildren(...rows.slice(0, 1000).map((row) => {
      const line = document.createElement("tr");
      const jobs = document.createElement("a");
      jobs.href = `/jobs?state=scheduled&due_from=${row.first}&due_to=${row.last}`;
      jobs.textContent = link;
      const last = document.createElement("td");
      last.append(jobs);
      line.append(cell(row.level, ""), cell(row.slot), cell(time(row.first), ""), cell(time(row.last), ""), cell(count(row.jobs)), cell(count(row.leases)), last);
      return line;
    }));
  }

  return (wheel, totals) => {
    for (const [name, value] of Object.entries(totals)) {
      const fact = document.querySelector(`[data-wheel-fact="${name}"]`);
      if (fact) fact.textContent = count(value);
    }
    for (const level of wheel.levels) {
      const row = document.querySelector(`#wheel-levels tr[data-level="${level.level}"]`);
      if (!row) continue;
      const sum = (values) => count(values.reduce((a, b) => a + b, 0));
      const values = { occupied: count(level.occupied.length), jobs: sum(level.jobs), leases: sum(level.leases) };
      for (const [name, value] of Object.entries(values)) {
        row.querySelector(`[data-cell="${name}"]`).textContent = value;
      }
    }
    const isUsed = slots?.contains(document.activeElement);
    if (slots && !isUsed && performance.now() - refreshed > 2000) {
      refreshed = performance.now();
      listSlots(wheel);
    }
  };
}
