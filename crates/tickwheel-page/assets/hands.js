// What the wheel shows in each frame: the dust of jobs on disk, the hands, and the numbers in the
// hub. `at` is the time in milliseconds.

import { DIAL } from "./dial.js";
import { TURN } from "./ring.js";
import { clockTime, count, texts } from "./show.js";

/** A spread of numbers from 0 to 1 that looks random and is the same each time. */
const scattered = (place) => (Math.sin(place * 127.1 + 311.7) * 43758.5453) % 1;
const unit = (place) => Math.abs(scattered(place));

/** What is on disk: dust beyond the outermost ring. */
export function paintDust(context, dial, beyond, at, isStill) {
  if (beyond === 0) return;
  const motes = Math.min(260, Math.round(30 * Math.log10(beyond + 1)) + 6);
  const [, last] = dial.radii(dial.rings.length - 1);
  context.fillStyle = "#86c5f0";
  const drift = isStill ? 0 : at / 90000;
  for (let mote = 0; mote < motes; mote += 1) {
    const angle = unit(mote) * TURN + drift * (0.4 + unit(mote + 500) * 0.6);
    const far = last + (dial.radius * 0.93 - last) * (0.12 + 0.85 * unit(mote + 900));
    context.globalAlpha = 0.25 + 0.55 * Math.abs(Math.sin(at / 1700 + mote));
    const size = 0.7 + unit(mote + 300) * 1.3;
    context.fillRect(Math.cos(angle) * far - size / 2, Math.sin(angle) * far - size / 2, size, size);
  }
  context.globalAlpha = 1;
}

export function paintHands(context, dial, at) {
  for (const ring of dial.rings) {
    const [inner, outer] = dial.radii(ring.level);
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

/** The centre: the number of jobs on the wheel, and the time. */
export function paintHub(context, dial, totals, pulse, at) {
  const hub = dial.radius * 0.215;
  const light = context.createRadialGradient(0, 0, hub * 0.2, 0, 0, hub * 1.15);
  light.addColorStop(0, `rgba(255, 190, 90, ${(0.1 + 0.5 * pulse).toFixed(3)})`);
  light.addColorStop(1, "rgba(255, 190, 90, 0)");
  context.fillStyle = "#0d141e";
  context.beginPath();
  context.arc(0, 0, hub, 0, TURN);
  context.fill();
  context.fillStyle = light;
  context.beginPath();
  context.arc(0, 0, hub * 1.15, 0, TURN);
  context.fill();
  context.strokeStyle = `rgba(255, 199, 101, ${(0.25 + 0.6 * pulse).toFixed(3)})`;
  context.lineWidth = 1.5;
  context.beginPath();
  context.arc(0, 0, hub, 0, TURN);
  context.stroke();
  context.textAlign = "center";
  context.textBaseline = "middle";
  const number = count(totals.on);
  context.fillStyle = DIAL.bright;
  context.font = `650 ${hub * Math.min(0.5, 2.6 / Math.max(5, number.length))}px system-ui, sans-serif`;
  context.fillText(number, 0, -hub * 0.08);
  context.fillStyle = DIAL.text;
  context.font = `${hub * 0.17}px system-ui, sans-serif`;
  context.fillText(texts.on_wheel, 0, hub * 0.26);
  context.font = `${hub * 0.17}px ui-monospace, monospace`;
  context.fillText(clockTime(at), 0, -hub * 0.52);
  if (totals.ready > 0) {
    context.fillStyle = "#ffc765";
    context.font = `600 ${hub * 0.17}px system-ui, sans-serif`;
    context.fillText(`${count(totals.ready)} ${texts.ready}`, 0, hub * 0.54);
  }
  if (totals.beyond > 0 && dial.isLarge) {
    const text = `${count(totals.beyond)} ${texts.on_disk}`;
    const y = dial.radius * 0.9;
    context.font = `500 ${Math.max(10, dial.radius * 0.032)}px system-ui, sans-serif`;
    const width = context.measureText(text).width + 18;
    context.fillStyle = DIAL.face;
    context.beginPath();
    context.roundRect(-width / 2, y - dial.radius * 0.03, width, dial.radius * 0.06, 9);
    context.fill();
    context.fillStyle = "#9fd4f7";
    context.fillText(text, 0, y);
  }
}
