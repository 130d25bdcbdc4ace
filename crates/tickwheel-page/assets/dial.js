// The dial of the timing wheel: where each slot is, and the two layers that are drawn only when
// they change, the face and the glowing slots.

import { SLOTS, TURN } from "./ring.js";
import { duration } from "./show.js";

// The dial is dark in both themes, like the face of a watch.
export const DIAL = { face: "#0b1018", edge: "#1b2431", rim: "#2c3847", slot: "#1b2430", text: "#a9b6c8", bright: "#f4f7fb", faint: "#5d6b7e" };
// From a faint ember to white heat.
const HEAT = ["#5a3a12", "#7d4c12", "#a05f14", "#c47618", "#e38f24", "#f7aa3b", "#ffc765", "#ffe2a0", "#fff6e0"];
const COLD = ["#173a52", "#1f5373", "#2b7199", "#3d94c4", "#62b6e6", "#9ad6fa"];

const glows = new Map();

/** A soft round glow, drawn once for each colour. */
export function glow(colour) {
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

export class Dial {
  constructor(canvas) {
    this.canvas = canvas;
    this.isLarge = canvas.dataset.wheel === "large";
    this.rings = [];
    this.layers = { face: document.createElement("canvas"), slots: document.createElement("canvas") };
  }

  /** The inner and outer radius of a ring, as parts of the dial's radius. */
  radii(level) {
    const [first, last] = [0.265, 0.945];
    const step = (last - first) / this.rings.length;
    const inner = first + level * step;
    return [inner * this.radius, (inner + step * 0.7) * this.radius];
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

  /** The middle of a slot: its place, its angle and its distance from the centre. */
  point(level, slot) {
    const [inner, outer] = this.radii(level);
    const angle = ((slot + 0.5) / SLOTS) * TURN - TURN / 4;
    const middle = (inner + outer) / 2;
    return [Math.cos(angle) * middle, Math.sin(angle) * middle, angle, middle];
  }

  /** Follows the size of the canvas. Returns whether it has changed. */
  resize() {
    const size = Math.max(160, Math.round(this.canvas.clientWidth || 420));
    const density = Math.min(devicePixelRatio || 1, 2);
    const pixels = Math.round(size * density);
    if (this.canvas.width === pixels && this.size === size) return false;
    this.size = size;
    this.density = density;
    this.radius = size / 2 - 2;
    for (const layer of [this.canvas, this.layers.face, this.layers.slots]) {
      layer.width = pixels;
      layer.height = pixels;
    }
    this.drawFace();
    this.drawSlots();
    return true;
  }

  /** A context of a layer with the middle as its origin. */
  centred(layer) {
    const context = layer.getContext("2d");
    context.setTransform(1, 0, 0, 1, 0, 0);
    context.clearRect(0, 0, layer.width, layer.height);
    context.setTransform(this.density, 0, 0, this.density, layer.width / 2, layer.height / 2);
    return context;
  }

  drawFace() {
    const context = this.centred(this.layers.face);
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
  }

  /** Copies the layers to the canvas. Returns its context, with the middle as its origin. */
  paint() {
    const context = this.centred(this.canvas);
    context.setTransform(1, 0, 0, 1, 0, 0);
    context.drawImage(this.layers.face, 0, 0);
    context.drawImage(this.layers.slots, 0, 0);
    context.setTransform(this.density, 0, 0, this.density, this.canvas.width / 2, this.canvas.height / 2);
    return context;
  }
}
