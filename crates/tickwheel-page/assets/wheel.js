// The timing wheel, drawn live.
//
// Levels are rings: the innermost turns fastest. A slot glows by the number of timers it holds. Each
// ring has its hand; what the hand of an outer ring reaches moves inward, and what the innermost
// hand reaches fires. The server sends counts twice a second; between two messages the drawing moves
// by the clock alone. So its cost depends on the number of slots, never on the number of timers.
//
// Three layers: the face of the dial and the glowing slots (dial.js) are drawn when they change, hands
// (hands.js) and sparks (sparks.js) in each frame. choice.js has the slot under the pointer, and
// slot_tables.js the same counts as tables.

import { Choice, startPointing } from "./choice.js";
import { Dial } from "./dial.js";
import { paintDust, paintHands, paintHub } from "./hands.js";
import { Ring, SLOTS } from "./ring.js";
import { now } from "./show.js";
import { startTables } from "./slot_tables.js";
import { Sparks } from "./sparks.js";

const MIN_LEVELS = 3;
const MAX_LEVELS = 5;

class Wheel {
  constructor(canvas) {
    this.canvas = canvas;
    this.dial = new Dial(canvas);
    this.sparks = new Sparks(this.dial);
    this.choice = new Choice(this.dial, () => {
      if (!this.isMoving) this.paint();
    });
    this.isStill = matchMedia("(prefers-reduced-motion: reduce)").matches;
    this.isPaused = false;
    this.isVisible = true;
    this.totals = { on: 0, ready: 0, beyond: 0 };
    this.frames = 0;
    this.last = 0;
    this.setLevels(MIN_LEVELS);
    this.resize();
    new ResizeObserver(() => this.resize()).observe(canvas);
    new IntersectionObserver(([entry]) => {
      this.isVisible = entry.isIntersecting;
      this.wake();
    }).observe(canvas);
    document.addEventListener("tickwheel:pause", (event) => {
      this.isPaused = event.detail;
      this.wake();
    });
    this.wake();
  }

  setLevels(levels) {
    const { rings } = this.dial;
    while (rings.length < levels) {
      rings.push(new Ring(rings.length, SLOTS ** rings.length));
    }
    rings.length = levels;
  }

  resize() {
    if (this.dial.resize()) this.paint();
  }

  /** Takes the counts of the server. */
  show(wheel) {
    const used = wheel.levels.findLastIndex((level) => level.occupied.length > 0) + 1;
    const levels = Math.min(MAX_LEVELS, Math.max(MIN_LEVELS, used));
    if (levels !== this.dial.rings.length) {
      this.setLevels(levels);
      this.dial.drawFace();
    }
    for (const ring of this.dial.rings) {
      const level = wheel.levels[ring.level];
      if (level) ring.take(level);
      else ring.take({ occupied: [], jobs: [], leases: [], start_ms: 0 });
    }
    const on = this.dial.rings.reduce((sum, ring) => sum + ring.jobs.reduce((a, b) => a + b, 0), 0);
    this.totals = { on, ready: wheel.ready, beyond: wheel.beyond };
    this.canvas.dataset.on = String(on);
    this.canvas.dataset.beyond = String(wheel.beyond);
    this.dial.drawSlots();
    this.isStale = false;
    if (this.isStill) this.paint();
    this.choice.showTip();
    this.wake();
  }

  /** Moves what the hands have reached: inward, or out of the wheel. */
  advance(at) {
    for (const ring of this.dial.rings) {
      const slot = ring.slotAt(at);
      if (ring.seen === -1 || ring.seen === slot) {
        ring.seen = slot;
        continue;
      }
      const steps = (slot - ring.seen + SLOTS) % SLOTS;
      for (let step = 1; step <= Math.min(steps, SLOTS - 1); step += 1) {
        this.reach(ring, (ring.seen + step) % SLOTS);
      }
      ring.seen = slot;
    }
  }

  reach(ring, slot) {
    const jobs = ring.jobs[slot];
    if (jobs <= 0) return;
    ring.jobs[slot] = 0;
    ring.leases[slot] = 0;
    this.isStale = true;
    this.sparks.reach(ring.level, slot, jobs);
  }

  wake() {
    const mayMove = this.isVisible && !this.isPaused && !this.isStill;
    if (!mayMove || this.isMoving) return;
    this.isMoving = true;
    this.dial.rings.forEach((ring) => { ring.seen = -1; });
    requestAnimationFrame((stamp) => this.frame(stamp));
  }

  frame(stamp) {
    if (!this.isVisible || this.isPaused || this.isStill) {
      this.isMoving = false;
      return;
    }
    const passed = Math.min(0.1, (stamp - (this.last || stamp)) / 1000);
    this.last = stamp;
    this.advance(now());
    if (this.isStale) {
      this.dial.drawSlots();
      this.isStale = false;
    }
    this.sparks.age(passed);
    this.paint();
    this.frames += 1;
    const { moved, fired } = this.sparks;
    Object.assign(this.canvas.dataset, { frames: this.frames, moved, fired });
    requestAnimationFrame((next) => this.frame(next));
  }

  paint() {
    const context = this.dial.paint();
    const at = now();
    paintDust(context, this.dial, this.totals.beyond, at, this.isStill);
    paintHands(context, this.dial, at);
    this.sparks.paint(context);
    paintHub(context, this.dial, this.totals, this.sparks.pulse, at);
    this.choice.paint(context);
  }
}

/** Draws the wheel on a canvas. `show` takes the counts of the server. */
export function startWheel(canvas) {
  const wheel = new Wheel(canvas);
  if (!wheel.dial.isLarge) return wheel;
  startPointing(wheel.choice);
  const tables = startTables();
  return {
    show(counts) {
      wheel.show(counts);
      tables(counts, wheel.totals);
    },
  };
}
