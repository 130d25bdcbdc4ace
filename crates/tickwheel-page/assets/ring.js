// A ring of the timing wheel: the counts of one level, and where its hand is.

export const TURN = 2 * Math.PI;
export const SLOTS = 256;

export class Ring {
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
