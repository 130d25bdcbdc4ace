// Uses Tickwheel through jackd, a client of beanstalkd for Node.
// The port is the first argument, and the folder with the client's module the second.

import assert from "node:assert/strict"
import { createRequire } from "node:module"

const [port, modules] = process.argv.slice(2)
const required = createRequire(`${modules}/`)("jackd")
const Jackd = required.default ?? required

async function connected(tube) {
  const client = new Jackd()
  await client.connect({ host: "127.0.0.1", port: Number(port) })
  await client.use(tube)
  await client.watch(tube)
  await client.ignore("default")
  return client
}

const client = await connected("jackd")
const id = await client.put({ hello: "world" }, { priority: 5, ttr: 30 })
const job = await client.reserveWithTimeout(10)
assert.equal(String(job.id), String(id))
assert.deepEqual(JSON.parse(job.payload), { hello: "world" })
await client.touch(id)
await client.release(id, { priority: 1, delay: 0 })
assert.equal(String((await client.reserve()).id), String(id))
await client.bury(id)
assert.equal(String((await client.peekBuried()).id), String(id))
assert.equal(Number(await client.kick(10)), 1)
await client.reserve()
await client.delete(id)
await assert.rejects(client.peek(id))

// Commands that are sent without waiting are answered in order.
const ids = await Promise.all(Array.from({ length: 100 }, (_, n) => client.put(`job ${n}`)))
assert.equal(new Set(ids.map(String)).size, 100)
for (const expected of ids) {
  const next = await client.reserve()
  assert.equal(String(next.id), String(expected))
  await client.delete(next.id)
}

// A worker that waits gets the job of another client.
const waits = await connected("jackd")
const reserved = waits.reserve()
const late = await client.put("late")
assert.equal(String((await reserved).id), String(late))
await waits.delete(late)
await waits.disconnect()
await client.disconnect()
console.log("jackd: ok")
