// The slot that is chosen by the pointer or the keyboard: its outline, its tip and its list of jobs.

import { SLOTS, TURN } from "./ring.js";
import { clockTime, count, fill, now, texts, time } from "./show.js";

export class Choice {
  /** `changed` is called when another slot, or none, was chosen. */
  constructor(dial, changed) {
    this.dial = dial;
    this.changed = changed;
    this.chosen = null;
  }

  /** The slot at a place of the canvas. */
  slotUnder(event) {
    const box = this.dial.canvas.getBoundingClientRect();
    const scale = this.dial.size / box.width;
    const x = (event.clientX - box.left) * scale - this.dial.size / 2;
    const y = (event.clientY - box.top) * scale - this.dial.size / 2;
    const far = Math.hypot(x, y);
    for (const ring of this.dial.rings) {
      const [inner, outer] = this.dial.radii(ring.level);
      if (far < inner - 2 || far > outer + 2) continue;
      const turn = ((Math.atan2(y, x) + TURN / 4 + TURN) % TURN) / TURN;
      return { level: ring.level, slot: Math.floor(turn * SLOTS) % SLOTS };
    }
    return null;
  }

  span({ level, slot }) {
    const ring = this.dial.rings[level];
    const from = ring.start(now()) + slot * ring.slotMs;
    return [from, from + ring.slotMs - 1];
  }

  choose(chosen) {
    this.chosen = chosen;
    this.showTip();
    this.changed();
  }

  showTip() {
    const tip = document.getElementById("wheel-tip");
    if (!tip || !this.dial.isLarge) return;
    tip.hidden = !this.chosen;
    if (!this.chosen) return;
    const { level, slot } = this.chosen;
    const ring = this.dial.rings[level];
    const [from, to] = this.span(this.chosen);
    const fine = ring.slotMs < 1000;
    const shown = (at) => (fine ? `${clockTime(at)}.${String(at % 1000).padStart(3, "0")}` : `${clockTime(at)} (${time(at)})`);
    tip.textContent = fill(texts.slot, {
      level, slot, from: shown(from), to: shown(to), jobs: count(ring.jobs[slot]), leases: count(ring.leases[slot]),
    });
    const [x, y] = this.dial.point(level, slot);
    const box = this.dial.canvas.getBoundingClientRect();
    const outer = tip.parentElement.getBoundingClientRect();
    const scale = box.width / this.dial.size;
    const left = box.left - outer.left + box.width / 2 + x * scale;
    const top = box.top - outer.top + box.height / 2 + y * scale;
    tip.style.left = `${Math.max(0, Math.min(outer.width - tip.offsetWidth, left + 12))}px`;
    tip.style.top = `${Math.max(0, top - tip.offsetHeight - 12)}px`;
  }

  /** The path of the list of a slot's jobs. */
  path(chosen) {
    const [from, to] = this.span(chosen);
    return `/jobs?state=scheduled&due_from=${from}&due_to=${to}`;
  }

  /** Moves the choice: sideways to the next slot that holds something, up and down to other rings. */
  move(key) {
    const { level, slot } = this.chosen ?? { level: 1, slot: this.dial.rings[1].slotAt(now()) };
    if (key === "ArrowUp" || key === "ArrowDown") {
      const next = level + (key === "ArrowUp" ? 1 : -1);
      this.choose({ level: Math.max(0, Math.min(this.dial.rings.length - 1, next)), slot });
      return;
    }
    const ring = this.dial.rings[level];
    const step = key === "ArrowRight" ? 1 : SLOTS - 1;
    for (let distance = 1; distance <= SLOTS; distance += 1) {
      const next = (slot + step * distance) % SLOTS;
      if (ring.jobs[next] + ring.leases[next] > 0) {
        this.choose({ level, slot: next });
        return;
      }
    }
    this.choose({ level, slot: (slot + step) % SLOTS });
  }

  paint(context) {
    if (!this.chosen) return;
    const shape = new Path2D();
    this.dial.addSlot(shape, this.chosen.level, this.chosen.slot, 3);
    context.strokeStyle = "#ffffff";
    context.lineWidth = 2;
    context.stroke(shape);
  }
}

/** Lets the pointer and the keyboard choose a slot, and open the list of its jobs. */
export function startPointing(choice) {
  const { canvas } = choice.dial;
  canvas.addEventListener("pointermove", (event) => choice.choose(choice.slotUnder(event)));
  canvas.addEventListener("pointerleave", () => choice.choose(null));
  canvas.addEventListener("blur", () => choice.choose(null));
  canvas.addEventListener("click", (event) => {
    const slot = choice.slotUnder(event);
    if (slot) location.assign(choice.path(slot));
  });
  canvas.addEventListener("keydown", (event) => {
    if (event.key.startsWith("Arrow")) {
      event.preventDefault();
      choice.move(event.key);
    } else if (event.key === "Enter" && choice.chosen) {
      location.assign(choice.path(choice.chosen));
    } else if (event.key === "Escape") {
      choice.choose(null);
    }
  });
}
