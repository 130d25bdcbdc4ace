/**
 * Client and worker for Tickwheel, the durable delayed-job service. `tickwheel/testing` has a real
 * server with a manual clock, and an in-memory fake.
 */

export * from "./administration.js";
export { Client, type LeaseItem } from "./client.js";
export {
  ApiError, ConnectionError, DeadJob, ReleaseJob, RetryJob, SignatureError, TickwheelError,
} from "./errors.js";
export * from "./insight.js";
export type { ClientOptions } from "./transport.js";
export * from "./types.js";
export { signWebhook, verifyWebhook, type VerifyOptions } from "./webhooks.js";
export {
  Worker, type Context, type Handler, type HandlerOptions, type Middleware, type WorkerOptions,
} from "./worker.js";
