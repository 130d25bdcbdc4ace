// The timing wheel, drawn live.
//
// Levels are rings: the innermost turns fastest. A slot glows by the number of timers it holds. Each
// ring has its hand; what the hand of an outer ring reaches moves inward, and what the innermost
// hand reaches fires. The server sends counts twice a second; between two messages the drawing moves
// by the clock alone. So its cost depends on the number of slots, never on the number of timers.
//
// Three layers: the dial and the glowing slots are drawn when they change, hands and sparks in each
// frame.

import { clockTime, count, duration, fill, now, texts, time } from "./show.js";

const TURN = 2 * Math.PI;
const MIN_LEVELS = 3;
const MAX_LEVELS = 5;
const MAX_SPARKS = 420;
const SLOTS = 256;

// The dial is dark in both themes, like the face of a watch.
const DIAL = { face: "#0b1018", edge: "#1b2431", rim: "#2c3847", slot: "#1b2430", text: "#a9b6c8", bright: "#f4f7fb", faint: "#5d6b7e" };
// From a faint ember to white heat.
const HEAT = ["#5a3a12", "#7d4c12", "#a05f14", "#c47618", "#e38f24", "#f7aa3b", "#ffc765", "#ffe2a0", "#fff6e0"];
const COLD = ["#173a52", "#1f5373", "#2b7199", "#3d94c4", "#62b6e6", "#9ad6fa"];

const glows = new Map();

/** A soft round glow, drawn once for each colour. */
function glow(colour) {
  if (glows.has(colour)) return glows.get(colour);
  const sprite = document.createElement("canvas");
  sprite.width = 64;
  sprite.height = 64;
  const context = sprite.getContext("2d");
  const gradient = context.createRadialGradient(32, 32, 0, 32, 32, 32);
  gradient.addColorStop(0, colour);
  gradient.addColorStop(0.2, `${colour}ee`);
  gradient.addColorStop(0.45, `${colour}55`);
  gradient.addColorStop(1, `${colour}00`);
  context.fillStyle = gradient;
  context.fillRect(0, 0, 64, 64);
  glows.set(colour, sprite);
  return sprite;
}

/** A spread of numbers from 0 to 1 that looks random and is the same each time. */
const scattered = (place) => (Math.sin(place * 127.1 + 311.7) * 43758.5453) % 1;
const unit = (place) => Math.abs(scattered(place));

class Ring {
  constructor(level, slotMs) {
    this.level = level;
    this.slotMs = slotMs;
    this.jobs = new Float64Array(SLOTS);
    this.leases = new Float64Array(SLOTS);
    this.startMs = 0;
    this.seen = -1;
  }

  take(level) {
    this.jobs.fill(0);
    this.leases.fill(0);
    level.occupied.forEach((slot, place) => {
      this.jobs[slot] = level.jobs[place];
      this.leases[slot] = level.leases[place];
    });
    this.startMs = level.start_ms;
  }

  /** The angle of the hand: slot 0 is at the top. */
  angle(at) {
    const turn = this.slotMs * SLOTS;
    return ((at % turn) / turn) * TURN - TURN / 4;
  }

  slotAt(at) {
    return Math.floor(at / this.slotMs) % SLOTS;
  }

  /** When slot 0 of the present turn begins. */
  start(at) {
    return Math.floor(at / (this.slotMs * SLOTS)) * this.slotMs * SLOTS;
  }
}

class Wheel {
  constructor(canvas) {
    this.canvas = canvas;
    this.context = canvas.getContext("2d");
    this.isLarge = canvas.dataset.wheel === "large";
    this.isStill = matchMedia("(prefers-reduced-motion: reduce)").matches;
    this.isPaused = false;
    this.isVisible = true;
    this.rings = [];
    this.sparks = [];
    this.flashes = [];
    this.totals = { on: 0, ready: 0, beyond: 0 };
    this.pulse = 0;
    this.frames = 0;
    this.last = 0;
    this.chosen = null;
    this.layers = { dial: document.createElement("canvas"), slots: document.createElement("canvas") };
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
    while (this.rings.length < levels) {
      this.rings.push(new Ring(this.rings.length, SLOTS ** this.rings.length));
    }
    this.rings.length = levels;
  }

  /** The inner and outer radius of a ring, as parts of the dial's radius. */
  radii(level) {
    const [first, last] = [0.265, 0.945];
    const step = (last - first) / this.rings.length;
    const inner = first + level * step;
    return [inner * this.radius, (inner + step * 0.7) * this.radius];
  }

  resize() {
    const size = Math.max(160, Math.round(this.canvas.clientWidth || 420));
    const density = Math.min(devicePixelRatio || 1, 2);
    const pixels = Math.round(size * density);
    if (this.canvas.width === pixels && this.size === size) return;
    this.size = size;
    this.density = density;
    this.radius = size / 2 - 2;
    for (const layer of [this.canvas, this.layers.dial, this.layers.slots]) {
      layer.width = pixels;
      layer.height = pixels;
    }
    this.drawDial();
    this.drawSlots();
    this.paint();
  }

  /** A context of a layer with the middle as its origin. */
  centred(layer) {
    const context = layer.getContext("2d");
    context.setTransform(1, 0, 0, 1, 0, 0);
    context.clearRect(0, 0, layer.width, layer.height);
    context.setTransform(this.density, 0, 0, this.density, layer.width / 2, layer.height / 2);
    return context;
  }

  drawDial() {
    const context = this.centred(this.layers.dial);
    const { radius } = this;
    const face = context.createRadialGradient(0, -radius * 0.35, radius * 0.05, 0, 0, radius);
    face.addColorStop(0, "#172130");
    face.addColorStop(0.55, DIAL.face);
    face.addColorStop(1, "#05080d");
    context.fillStyle = face;
    context.beginPath();
    context.arc(0, 0, radius, 0, TURN);
    context.fill();
    const rim = context.createLinearGradient(-radius, -radius, radius, radius);
    rim.addColorStop(0, "#4a5a70");
    rim.addColorStop(0.5, "#1a2330");
    rim.addColorStop(1, "#3a4759");
    context.strokeStyle = rim;
    context.lineWidth = Math.max(2, radius * 0.012);
    context.beginPath();
    context.arc(0, 0, radius - context.lineWidth / 2, 0, TURN);
    context.stroke();
    // Minute marks, as on a watch.
    for (let mark = 0; mark < 64; mark += 1) {
      const isLong = mark % 16 === 0;
      const angle = (mark / 64) * TURN;
      const [from, to] = [radius * (isLong ? 0.935 : 0.955), radius * 0.975];
      context.strokeStyle = isLong ? DIAL.text : DIAL.rim;
      context.lineWidth = isLong ? 2 : 1;
      context.beginPath();
      context.moveTo(Math.cos(angle) * from, Math.sin(angle) * from);
      context.lineTo(Math.cos(angle) * to, Math.sin(angle) * to);
      context.stroke();
    }
    context.fillStyle = DIAL.slot;
    for (const ring of this.rings) {
      const shape = new Path2D();
      for (let slot = 0; slot < SLOTS; slot += 1) this.addSlot(shape, ring.level, slot);
      context.fill(shape);
    }
    this.drawLabels(context);
  }

  drawLabels(context) {
    if (!this.isLarge) return;
    context.font = `500 ${Math.max(10, this.radius * 0.03)}px system-ui, sans-serif`;
    context.textAlign = "center";
    context.textBaseline = "middle";
    for (const ring of this.rings) {
      const [, outer] = this.radii(ring.level);
      const text = duration(ring.slotMs * SLOTS);
      const at = -(outer + this.radius * 0.03);
      const width = context.measureText(text).width + 14;
      context.fillStyle = DIAL.face;
      context.beginPath();
      context.roundRect(-width / 2, at - this.radius * 0.026, width, this.radius * 0.052, 8);
      context.fill();
      context.fillStyle = DIAL.text;
      context.fillText(text, 0, at);
    }
  }

  addSlot(shape, level, slot, wider = 0) {
    const [inner, outer] = this.radii(level);
    const gap = Math.min(0.28, 0.9 / (((inner + outer) / 2) * (TURN / SLOTS)));
    const from = ((slot + gap / 2) / SLOTS) * TURN - TURN / 4;
    const to = ((slot + 1 - gap / 2) / SLOTS) * TURN - TURN / 4;
    shape.moveTo(Math.cos(from) * (inner - wider), Math.sin(from) * (inner - wider));
    shape.arc(0, 0, outer + wider, from, to);
    shape.arc(0, 0, inner - wider, to, from, true);
    shape.closePath();
  }

  /** Draws the glowing slots, grouped by their heat: few fills, whatever they hold. */
  drawSlots() {
    const context = this.centred(this.layers.slots);
    for (const ring of this.rings) {
      const most = Math.max(4, ...ring.jobs);
      const groups = new Map();
      const add = (colour, slot) => {
        if (!groups.has(colour)) groups.set(colour, []);
        groups.get(colour).push(slot);
      };
      for (let slot = 0; slot < SLOTS; slot += 1) {
        const [jobs, leases] = [ring.jobs[slot], ring.leases[slot]];
        if (jobs > 0) {
          // The logarithm tells one from ten, the root a hundred from a thousand.
          const heat = 0.35 * (Math.log1p(jobs) / Math.log1p(most)) + 0.65 * Math.sqrt(jobs / most);
          add(HEAT[Math.min(HEAT.length - 1, Math.floor(1 + heat * (HEAT.length - 2)))], slot);
        } else if (leases > 0) {
          const cold = Math.min(1, Math.log1p(leases) / Math.log1p(50));
          add(COLD[Math.min(COLD.length - 1, Math.floor(1 + cold * (COLD.length - 1)))], slot);
        }
      }
      const [inner, outer] = this.radii(ring.level);
      context.globalCompositeOperation = "lighter";
      for (const [colour, slots] of groups) {
        const sprite = glow(colour);
        const size = (outer - inner) * 1.5;
        context.globalAlpha = 0.16;
        for (const slot of slots) {
          const angle = ((slot + 0.5) / SLOTS) * TURN - TURN / 4;
          const middle = (inner + outer) / 2;
          context.drawImage(sprite, Math.cos(angle) * middle - size / 2, Math.sin(angle) * middle - size / 2, size, size);
        }
      }
      context.globalAlpha = 1;
      context.globalCompositeOperation = "source-over";
      for (const [colour, slots] of groups) {
        const shape = new Path2D();
        for (const slot of slots) this.addSlot(shape, ring.level, slot);
        context.fillStyle = colour;
        context.fill(shape);
      }
    }
    this.isStale = false;
  }

  /** Takes the counts of the server. */
  show(wheel) {
    const used = wheel.levels.findLastIndex((level) => level.occupied.length > 0) + 1;
    const levels = Math.min(MAX_LEVELS, Math.max(MIN_LEVELS, used));
    if (levels !== this.rings.length) {
      this.setLevels(levels);
      this.drawDial();
    }
    for (const ring of this.rings) {
      const level = wheel.levels[ring.level];
      if (level) ring.take(level);
      else ring.take({ occupied: [], jobs: [], leases: [], start_ms: 0 });
    }
    const on = this.rings.reduce((sum, ring) => sum + ring.jobs.reduce((a, b) => a + b, 0), 0);
    this.totals = { on, ready: wheel.ready, beyond: wheel.beyond };
    this.canvas.dataset.on = String(on);
    this.canvas.dataset.beyond = String(wheel.beyond);
    this.drawSlots();
    if (this.isStill) this.paint();
    this.showTip();
    this.wake();
  }

  /** Moves what the hands have reached: inward, or out of the wheel. */
  advance(at) {
    for (const ring of this.rings) {
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
    if (ring.level === 0) {
      this.flash(slot, jobs);
      return;
    }
    // The drawing does not know where in the inner ring each of them goes; the next message does.
    const shown = Math.min(jobs, ring.level === 1 ? 14 : 26, MAX_SPARKS - this.sparks.length);
    for (let place = 0; place < shown; place += 1) {
      const to = Math.floor(((place + Math.random()) / shown) * SLOTS);
      this.spark(ring.level, slot, to, jobs / shown);
    }
  }

  spark(fromLevel, fromSlot, toSlot, jobs) {
    const life = 0.5 + Math.random() * 0.6;
    this.sparks.push({ fromLevel, fromSlot, toLevel: fromLevel - 1, toSlot, jobs, age: 0, life });
  }

  flash(slot, jobs) {
    this.pulse = Math.min(1, this.pulse + 0.05 + Math.log1p(jobs) * 0.02);
    if (this.flashes.length < 90) this.flashes.push({ slot, age: 0, life: 0.7, size: 1 + Math.min(2, Math.log10(jobs + 1)) });
  }

  point(level, slot) {
    const [inner, outer] = this.radii(level);
    const angle = ((slot + 0.5) / SLOTS) * TURN - TURN / 4;
    const middle = (inner + outer) / 2;
    return [Math.cos(angle) * middle, Math.sin(angle) * middle, angle, middle];
  }

  wake() {
    const mayMove = this.isVisible && !this.isPaused && !this.isStill;
    if (!mayMove || this.isMoving) return;
    this.isMoving = true;
    this.rings.forEach((ring) => { ring.seen = -1; });
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
    if (this.isStale) this.drawSlots();
    this.age(passed);
    this.paint();
    this.frames += 1;
    this.canvas.dataset.frames = String(this.frames);
    requestAnimationFrame((next) => this.frame(next));
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

  paint() {
    const { context } = this;
    context.setTransform(1, 0, 0, 1, 0, 0);
    context.clearRect(0, 0, this.canvas.width, this.canvas.height);
    context.drawImage(this.layers.dial, 0, 0);
    context.drawImage(this.layers.slots, 0, 0);
    context.setTransform(this.density, 0, 0, this.density, this.canvas.width / 2, this.canvas.height / 2);
    const at = now();
    this.paintDust(context, at);
    this.paintHands(context, at);
    this.paintSparks(context);
    this.paintCentre(context, at);
    this.paintChosen(context);
  }

  /** What is on disk: dust beyond the outermost ring. */
  paintDust(context, at) {
    const { beyond } = this.totals;
    if (beyond === 0) return;
    const motes = Math.min(260, Math.round(30 * Math.log10(beyond + 1)) + 6);
    const [, last] = this.radii(this.rings.length - 1);
    context.fillStyle = "#86c5f0";
    const drift = this.isStill ? 0 : at / 90000;
    for (let mote = 0; mote < motes; mote += 1) {
      const angle = unit(mote) * TURN + drift * (0.4 + unit(mote + 500) * 0.6);
      const far = last + (this.radius * 0.93 - last) * (0.12 + 0.85 * unit(mote + 900));
      context.globalAlpha = 0.25 + 0.55 * Math.abs(Math.sin(at / 1700 + mote));
      const size = 0.7 + unit(mote + 300) * 1.3;
      context.fillRect(Math.cos(angle) * far - size / 2, Math.sin(angle) * far - size / 2, size, size);
    }
    context.globalAlpha = 1;
  }

  paintHands(context, at) {
    for (const ring of this.rings) {
      const [inner, outer] = this.radii(ring.level);
      const angle = ring.angle(at);
      // A trail behind the hand: long where it is fast.
      const trail = ring.level === 0 ? 1.5 : ring.level === 1 ? 0.5 : 0.18;
      const parts = 24;
      context.lineCap = "butt";
      for (let part = 0; part < parts; part += 1) {
        const from = angle - trail * (1 - part / parts);
        context.beginPath();
        context.arc(0, 0, (inner + outer) / 2, from, from + trail / parts);
        context.lineWidth = outer - inner;
        context.strokeStyle = `rgba(255, 214, 140, ${(0.012 + 0.2 * (part / parts) ** 2.4).toFixed(4)})`;
        context.stroke();
      }
      context.beginPath();
      context.moveTo(Math.cos(angle) * (inner - 3), Math.sin(angle) * (inner - 3));
      context.lineTo(Math.cos(angle) * (outer + 3), Math.sin(angle) * (outer + 3));
      context.strokeStyle = DIAL.bright;
      context.lineWidth = ring.level === 0 ? 1.6 : 2.2;
      context.lineCap = "round";
      context.stroke();
      context.beginPath();
      context.arc(Math.cos(angle) * (outer + 5), Math.sin(angle) * (outer + 5), ring.level === 0 ? 1.6 : 2.6, 0, TURN);
      context.fillStyle = "#ffc765";
      context.fill();
    }
    context.lineCap = "butt";
  }

  paintSparks(context) {
    context.globalCompositeOperation = "lighter";
    const sprite = glow("#ffc765");
    for (const spark of this.sparks) {
      const [, , fromAngle, fromFar] = this.point(spark.fromLevel, spark.fromSlot);
      const [, , toAngle, toFar] = this.point(spark.toLevel, spark.toSlot);
      let turn = (toAngle - fromAngle) % TURN;
      if (turn > TURN / 2) turn -= TURN;
      if (turn < -TURN / 2) turn += TURN;
      const ease = spark.age * spark.age * (3 - 2 * spark.age);
      for (let echo = 0; echo < 4; echo += 1) {
        const part = Math.max(0, ease - echo * 0.035);
        const angle = fromAngle + turn * part;
        const far = fromFar + (toFar - fromFar) * part;
        const size = (this.isLarge ? 17 : 11) * (1 - echo * 0.26);
        context.globalAlpha = (1 - spark.age * 0.3) * (0.95 - echo * 0.23);
        context.drawImage(sprite, Math.cos(angle) * far - size / 2, Math.sin(angle) * far - size / 2, size, size);
      }
    }
    const burst = glow("#ffdc96");
    for (const flash of this.flashes) {
      const [x, y, angle, far] = this.point(0, flash.slot);
      const size = this.radius * 0.055 * flash.size * (1 - flash.age * 0.5);
      context.globalAlpha = (1 - flash.age) ** 1.5;
      context.drawImage(burst, x - size / 2, y - size / 2, size, size);
      // Out of the wheel, to the workers in the middle.
      const inward = far * (1 - flash.age * 0.85);
      context.globalAlpha = (1 - flash.age) * 0.8;
      const small = this.isLarge ? 9 : 6;
      context.drawImage(burst, Math.cos(angle) * inward - small / 2, Math.sin(angle) * inward - small / 2, small, small);
    }
    context.globalAlpha = 1;
    context.globalCompositeOperation = "source-over";
  }

  paintCentre(context, at) {
    const hub = this.radius * 0.215;
    const light = context.createRadialGradient(0, 0, hub * 0.2, 0, 0, hub * 1.15);
    light.addColorStop(0, `rgba(255, 190, 90, ${(0.1 + 0.5 * this.pulse).toFixed(3)})`);
    light.addColorStop(1, "rgba(255, 190, 90, 0)");
    context.fillStyle = "#0d141e";
    context.beginPath();
    context.arc(0, 0, hub, 0, TURN);
    context.fill();
    context.fillStyle = light;
    context.beginPath();
    context.arc(0, 0, hub * 1.15, 0, TURN);
    context.fill();
    context.strokeStyle = `rgba(255, 199, 101, ${(0.25 + 0.6 * this.pulse).toFixed(3)})`;
    context.lineWidth = 1.5;
    context.beginPath();
    context.arc(0, 0, hub, 0, TURN);
    context.stroke();
    context.textAlign = "center";
    context.textBaseline = "middle";
    const number = count(this.totals.on);
    context.fillStyle = DIAL.bright;
    context.font = `650 ${hub * Math.min(0.5, 2.6 / Math.max(5, number.length))}px system-ui, sans-serif`;
    context.fillText(number, 0, -hub * 0.08);
    context.fillStyle = DIAL.text;
    context.font = `${hub * 0.17}px system-ui, sans-serif`;
    context.fillText(texts.on_wheel, 0, hub * 0.26);
    context.font = `${hub * 0.17}px ui-monospace, monospace`;
    context.fillText(clockTime(at), 0, -hub * 0.52);
    if (this.totals.ready > 0) {
      context.fillStyle = "#ffc765";
      context.font = `600 ${hub * 0.17}px system-ui, sans-serif`;
      context.fillText(`${count(this.totals.ready)} ${texts.ready}`, 0, hub * 0.54);
    }
    if (this.totals.beyond > 0 && this.isLarge) {
      const text = `${count(this.totals.beyond)} ${texts.on_disk}`;
      const y = this.radius * 0.9;
      context.font = `500 ${Math.max(10, this.radius * 0.032)}px system-ui, sans-serif`;
      const width = context.measureText(text).width + 18;
      context.fillStyle = DIAL.face;
      context.beginPath();
      context.roundRect(-width / 2, y - this.radius * 0.03, width, this.radius * 0.06, 9);
      context.fill();
      context.fillStyle = "#9fd4f7";
      context.fillText(text, 0, y);
    }
  }

  paintChosen(context) {
    if (!this.chosen) return;
    const shape = new Path2D();
    this.addSlot(shape, this.chosen.level, this.chosen.slot, 3);
    context.strokeStyle = "#ffffff";
    context.lineWidth = 2;
    context.stroke(shape);
  }

  /** The slot at a place of the canvas. */
  slotUnder(event) {
    const box = this.canvas.getBoundingClientRect();
    const scale = this.size / box.width;
    const x = (event.clientX - box.left) * scale - this.size / 2;
    const y = (event.clientY - box.top) * scale - this.size / 2;
    const far = Math.hypot(x, y);
    for (const ring of this.rings) {
      const [inner, outer] = this.radii(ring.level);
      if (far < inner - 2 || far > outer + 2) continue;
      const turn = ((Math.atan2(y, x) + TURN / 4 + TURN) % TURN) / TURN;
      return { level: ring.level, slot: Math.floor(turn * SLOTS) % SLOTS };
    }
    return null;
  }

  span({ level, slot }) {
    const ring = this.rings[level];
    const from = ring.start(now()) + slot * ring.slotMs;
    return [from, from + ring.slotMs - 1];
  }

  choose(chosen) {
    this.chosen = chosen;
    this.showTip();
    if (!this.isMoving) this.paint();
  }

  showTip() {
    const tip = document.getElementById("wheel-tip");
    if (!tip || !this.isLarge) return;
    tip.hidden = !this.chosen;
    if (!this.chosen) return;
    const { level, slot } = this.chosen;
    const ring = this.rings[level];
    const [from, to] = this.span(this.chosen);
    const fine = ring.slotMs < 1000;
    const shown = (at) => (fine ? `${clockTime(at)}.${String(at % 1000).padStart(3, "0")}` : `${clockTime(at)} (${time(at)})`);
    tip.textContent = fill(texts.slot, {
      level, slot, from: shown(from), to: shown(to), jobs: count(ring.jobs[slot]), leases: count(ring.leases[slot]),
    });
    const [x, y] = this.point(level, slot);
    const box = this.canvas.getBoundingClientRect();
    const outer = tip.parentElement.getBoundingClientRect();
    const scale = box.width / this.size;
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
    const { level, slot } = this.chosen ?? { level: 1, slot: this.rings[1].slotAt(now()) };
    if (key === "ArrowUp" || key === "ArrowDown") {
      const next = level + (key === "ArrowUp" ? 1 : -1);
      this.choose({ level: Math.max(0, Math.min(this.rings.length - 1, next)), slot });
      return;
    }
    const ring = this.rings[level];
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
}

function startPointing(wheel) {
  const { canvas } = wheel;
  canvas.addEventListener("pointermove", (event) => wheel.choose(wheel.slotUnder(event)));
  canvas.addEventListener("pointerleave", () => wheel.choose(null));
  canvas.addEventListener("blur", () => wheel.choose(null));
  canvas.addEventListener("click", (event) => {
    const slot = wheel.slotUnder(event);
    if (slot) location.assign(wheel.path(slot));
  });
  canvas.addEventListener("keydown", (event) => {
    if (event.key.startsWith("Arrow")) {
      event.preventDefault();
      wheel.move(event.key);
    } else if (event.key === "Enter" && wheel.chosen) {
      location.assign(wheel.path(wheel.chosen));
    } else if (event.key === "Escape") {
      wheel.choose(null);
    }
  });
}

function cell(text, className = "num") {
  const made = document.createElement("td");
  made.className = className;
  made.textContent = text;
  return made;
}

/** The same numbers as tables, for screen readers. */
function startTables() {
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

/** Draws the wheel on a canvas. `show` takes the counts of the server. */
export function startWheel(canvas) {
  const wheel = new Wheel(canvas);
  if (!wheel.isLarge) return wheel;
  startPointing(wheel);
  const tables = startTables();
  return {
    show(counts) {
      wheel.show(counts);
      tables(counts, wheel.totals);
    },
  };
}
