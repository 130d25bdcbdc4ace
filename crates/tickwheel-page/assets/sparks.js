// What moves when a hand reaches a slot: sparks fly to the next ring inward, and a slot of the
// innermost ring flashes and fires.

import { glow } from "./dial.js";
import { SLOTS, TURN } from "./ring.js";

const MAX_SPARKS = 420;
const MAX_FLASHES = 90;

export class Sparks {
  constructor(dial) {
    this.dial = dial;
    this.sparks = [];
    this.flashes = [];
    // How brightly the centre glows: it grows with each flash and fades.
    this.pulse = 0;
    // Jobs that moved to an inner ring, and jobs that flashed, since the drawing began.
    this.moved = 0;
    this.fired = 0;
  }

  /** The hand of a ring has reached a slot with jobs. */
  reach(level, slot, jobs) {
    if (level === 0) {
      this.flash(slot, jobs);
      return;
    }
    this.moved += jobs;
    // The drawing does not know where in the inner ring each of them goes; the next message does.
    const shown = Math.min(jobs, level === 1 ? 14 : 26, MAX_SPARKS - this.sparks.length);
    for (let place = 0; place < shown; place += 1) {
      const to = Math.floor(((place + Math.random()) / shown) * SLOTS);
      this.spark(level, slot, to, jobs / shown);
    }
  }

  spark(fromLevel, fromSlot, toSlot, jobs) {
    const life = 0.5 + Math.random() * 0.6;
    this.sparks.push({ fromLevel, fromSlot, toLevel: fromLevel - 1, toSlot, jobs, age: 0, life });
  }

  flash(slot, jobs) {
    this.fired += jobs;
    this.pulse = Math.min(1, this.pulse + 0.05 + Math.log1p(jobs) * 0.02);
    if (this.flashes.length < MAX_FLASHES) this.flashes.push({ slot, age: 0, life: 0.7, size: 1 + Math.min(2, Math.log10(jobs + 1)) });
  }

  age(passed) {
    this.pulse = Math.max(0, this.pulse - passed * 1.6);
    for (const list of ["sparks", "flashes"]) {
      this[list] = this[list].filter((one) => {
        one.age += passed / one.life;
        // What arrives at the innermost ring is due within a quarter of a second.
        if (one.age >= 1 && one.toLevel === 0) this.flash(one.toSlot, one.jobs);
        return one.age < 1;
      });
    }
  }

  paint(context) {
    context.globalCompositeOperation = "lighter";
    const sprite = glow("#ffc765");
    for (const spark of this.sparks) {
      const [, , fromAngle, fromFar] = this.dial.point(spark.fromLevel, spark.fromSlot);
      const [, , toAngle, toFar] = this.dial.point(spark.toLevel, spark.toSlot);
      let turn = (toAngle - fromAngle) % TURN;
      if (turn > TURN / 2) turn -= TURN;
      if (turn < -TURN / 2) turn += TURN;
      const ease = spark.age * spark.age * (3 - 2 * spark.age);
      for (let echo = 0; echo < 4; echo += 1) {
        const part = Math.max(0, ease - echo * 0.035);
        const angle = fromAngle + turn * part;
        const far = fromFar + (toFar - fromFar) * part;
        const size = (this.dial.isLarge ? 17 : 11) * (1 - echo * 0.26);
        context.globalAlpha = (1 - spark.age * 0.3) * (0.95 - echo * 0.23);
        context.drawImage(sprite, Math.cos(angle) * far - size / 2, Math.sin(angle) * far - size / 2, size, size);
      }
    }
    const burst = glow("#ffdc96");
    for (const flash of this.flashes) {
      const [x, y, angle, far] = this.dial.point(0, flash.slot);
      const size = this.dial.radius * 0.055 * flash.size * (1 - flash.age * 0.5);
      context.globalAlpha = (1 - flash.age) ** 1.5;
      context.drawImage(burst, x - size / 2, y - size / 2, size, size);
      // Out of the wheel, to the workers in the middle.
      const inward = far * (1 - flash.age * 0.85);
      context.globalAlpha = (1 - flash.age) * 0.8;
      const small = this.dial.isLarge ? 9 : 6;
      context.drawImage(burst, Math.cos(angle) * inward - small / 2, Math.sin(angle) * inward - small / 2, small, small);
    }
    context.globalAlpha = 1;
    context.globalCompositeOperation = "source-over";
  }
}
