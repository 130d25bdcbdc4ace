/**
 * Transparent batching: puts that happen within a millisecond travel as one request.
 *
 * The first put opens a batch; puts that arrive within the window join it. Each caller gets its own
 * answer or error. If the server refuses the batch as a whole because one item is malformed, every
 * item is sent alone, so that only its caller is told.
 */

import { randomUUID } from "node:crypto";
import { ApiError } from "./errors.js";
import type { Transport } from "./transport.js";
import type { Put, PutResult, Result } from "./types.js";

const MAX_ITEMS = 1_000;
/** Half of the server's limit for a body. Jobs that are larger travel alone. */
const MAX_BYTES = 4 << 20;

interface Waiting {
  job: Put;
  resolve(result: PutResult): void;
  reject(error: unknown): void;
}

export class Batcher {
  private waiting: Waiting[] = [];
  private bytes = 0;
  private timer: NodeJS.Timeout | undefined;

  constructor(private readonly transport: Transport, private readonly window: number) {}

  put(job: Put): Promise<PutResult> {
    const size = Buffer.byteLength(JSON.stringify(job));
    return new Promise((resolve, reject) => {
      const isFull = this.waiting.length >= MAX_ITEMS || this.bytes + size > MAX_BYTES;
      if (isFull && this.waiting.length > 0) this.flush();
      this.waiting.push({ job, resolve, reject });
      this.bytes += size;
      this.timer ??= setTimeout(() => this.flush(), this.window);
    });
  }

  private flush(): void {
    clearTimeout(this.timer);
    this.timer = undefined;
    const batch = this.waiting;
    this.waiting = [];
    this.bytes = 0;
    void this.send(batch);
  }

  private async send(batch: Waiting[]): Promise<void> {
    if (batch.length > 1) {
      try {
        const results = await putMany(this.transport, batch.map((it) => it.job));
        batch.forEach((it, index) => {
          const result = results[index]!;
          if (result.error) it.reject(new ApiError(result.error));
          else it.resolve(result.ok);
        });
        return;
      } catch (error) {
        const isWhole = error instanceof ApiError && [400, 413, 422].includes(error.status);
        if (!isWhole) {
          batch.forEach((it) => it.reject(error));
          return;
        }
      }
    }
    for (const it of batch) {
      await putOne(this.transport, it.job).then(it.resolve, it.reject);
    }
  }
}

export function putOne(transport: Transport, job: Put, key?: string): Promise<PutResult> {
  return transport.send<PutResult>({
    method: "POST",
    path: `/v1/queues/${encodeURIComponent(job.queue)}/jobs`,
    body: job,
    headers: { "idempotency-key": key ?? randomUUID() },
    repeatable: true,
  });
}

export async function putMany(
  transport: Transport, jobs: Put[], key?: string,
): Promise<Result<PutResult>[]> {
  const answer = await transport.send<{ results: Result<PutResult>[] }>({
    method: "POST",
    path: "/v1/jobs/batch",
    body: { items: jobs },
    headers: { "idempotency-key": key ?? randomUUID() },
    repeatable: true,
  });
  return answer.results;
}
