/** A worker of the soak test in a process of its own: writes the number of each job to a file. */

import { appendFileSync } from "node:fs";
import { Client, Worker } from "../src/index.js";

const [url, output] = process.argv.slice(2);
const worker = new Worker(new Client(url), { concurrency: 4, prefetch: 4, lease: "1s", log: () => {} });
worker.handle("soak", (job) => appendFileSync(output!, `${job.payload}\n`));
await worker.run({ signals: true });
