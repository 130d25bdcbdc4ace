/**
 * Sends requests by `fetch`: repeats those that can be repeated, and turns problem documents into
 * errors.
 */

import { ApiError, ConnectionError } from "./errors.js";
import type { Problem } from "./types.js";

export const VERSION = "0.1.0";
export const USER_AGENT = `tickwheel-typescript/${VERSION}`;

export interface ClientOptions {
  /** Defaults to the environment variable `TICKWHEEL_TOKEN`. */
  token?: string;
  /** How long an answer may take, in milliseconds, beyond the wait of a reserve. Defaults to 30 s. */
  timeout?: number;
  /** For how long a request is repeated, in milliseconds. Defaults to 30 s. */
  retryFor?: number;
  /** How long a put waits for others to share its request, in milliseconds. Defaults to 1; 0 sends
   * every put alone. */
  batchWindow?: number;
  /** Replaces `fetch`, for proxies and tests. */
  fetch?: typeof fetch;
}

export interface Call {
  method: string;
  path: string;
  body?: unknown;
  headers?: Record<string, string>;
  /** Whether the request can be sent again when it is not known whether it was carried out. */
  repeatable?: boolean;
  /** How long the server may wait before it answers, in milliseconds. */
  wait?: number;
  /** Ends the request. */
  signal?: AbortSignal;
  /** Whether to fail at once instead of repeating the request. */
  once?: boolean;
}

export function sleep(milliseconds: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const done = () => {
      clearTimeout(timer);
      signal?.removeEventListener("abort", done);
      resolve();
    };
    const timer = setTimeout(done, milliseconds);
    if (signal?.aborted) done();
    else signal?.addEventListener("abort", done);
  });
}

/** Returns how long to wait before the next attempt: as `Retry-After` says, else a random time that
 * doubles with each attempt, at most 5 seconds. */
export function retryDelay(attempt: number, error: unknown): number {
  if (error instanceof ApiError && error.retryAfter !== undefined) {
    return error.retryAfter * 1000 * (1 + Math.random() / 10);
  }
  return Math.min(5000, 50 * 2 ** attempt) * (0.5 + Math.random() / 2);
}

export class Transport {
  readonly url: string;
  private readonly headers: Record<string, string>;
  private readonly timeout: number;
  private readonly retryFor: number;
  private readonly fetch: typeof fetch;

  constructor(url: string | undefined, options: ClientOptions) {
    url ??= process.env["TICKWHEEL_URL"] ?? "http://127.0.0.1:7300";
    if (!/^https?:\/\/[^/]/.test(url)) {
      throw new TypeError(`"${url}" is not a URL of a server: write it like http://127.0.0.1:7300`);
    }
    this.url = url.replace(/\/+$/, "");
    this.headers = { "user-agent": USER_AGENT, accept: "application/json" };
    const token = options.token ?? process.env["TICKWHEEL_TOKEN"];
    if (token) this.headers["authorization"] = `Bearer ${token}`;
    this.timeout = options.timeout ?? 30_000;
    this.retryFor = options.retryFor ?? 30_000;
    this.fetch = options.fetch ?? globalThis.fetch;
  }

  /** Sends a request, repeats it if that is safe, and returns the JSON of its answer. */
  async send<T>(call: Call): Promise<T> {
    const deadline = performance.now() + (call.once ? 0 : this.retryFor);
    for (let attempt = 0; ; attempt++) {
      let failure: unknown;
      try {
        return await this.sendOnce<T>(call);
      } catch (error) {
        failure = error;
      }
      const delay = retryDelay(attempt, failure);
      const isLate = performance.now() + delay > deadline;
      if (isLate || call.signal?.aborted || !isRepeated(call, failure)) throw failure;
      await sleep(delay, call.signal);
    }
  }

  private async sendOnce<T>(call: Call): Promise<T> {
    const limit = AbortSignal.timeout(this.timeout + (call.wait ?? 0));
    const signal = call.signal ? AbortSignal.any([limit, call.signal]) : limit;
    const response = await this.open(call, signal);
    let text: string;
    try {
      text = await response.text();
    } catch (error) {
      throw connectionError(call, error);
    }
    if (!response.ok) throw problemOf(response, text);
    return JSON.parse(text) as T;
  }

  /** Sends a request and returns its answer before its body. */
  async open(call: Call, signal: AbortSignal): Promise<Response> {
    const headers: Record<string, string> = { ...this.headers, ...call.headers };
    const init: RequestInit = { method: call.method, headers, signal };
    if (call.body !== undefined) {
      headers["content-type"] = "application/json";
      init.body = JSON.stringify(call.body);
    }
    try {
      return await this.fetch(this.url + call.path, init);
    } catch (error) {
      throw connectionError(call, error);
    }
  }

  /** Opens a stream of server-sent events. */
  async events(path: string, lastEventId: string | undefined, signal: AbortSignal): Promise<Response> {
    const headers: Record<string, string> = { accept: "text/event-stream" };
    if (lastEventId !== undefined) headers["last-event-id"] = lastEventId;
    const response = await this.open({ method: "GET", path, headers }, signal);
    if (!response.ok) throw problemOf(response, await response.text());
    return response;
  }
}

/** A request that was refused with 429 or 503 was not carried out, except that the outcome may be
 * unknown. */
function isRepeated(call: Call, failure: unknown): boolean {
  if (failure instanceof ConnectionError) return call.repeatable === true || !failure.sent;
  if (!(failure instanceof ApiError) || ![429, 503].includes(failure.status)) return false;
  return call.repeatable === true || failure.code !== "outcome-unknown";
}

function connectionError(call: Call, error: unknown): ConnectionError {
  const cause = (error as { cause?: { code?: string; message?: string } }).cause;
  const neverSent = ["ECONNREFUSED", "ENOTFOUND", "EAI_AGAIN", "EHOSTUNREACH", "UND_ERR_CONNECT_TIMEOUT"];
  const why = cause?.message || cause?.code || (error as Error).message;
  const message = `${call.method} ${call.path}: ${why}`;
  return new ConnectionError(message, !neverSent.includes(cause?.code ?? ""), { cause: error });
}

function problemOf(response: Response, text: string): ApiError {
  let problem: Problem;
  try {
    problem = JSON.parse(text) as Problem;
  } catch {
    const detail = text.slice(0, 200) || `the server answered with status ${response.status}`;
    problem = { status: response.status, code: "unknown", detail };
  }
  const after = response.headers.get("retry-after");
  return new ApiError(problem, after !== null && /^\d+$/.test(after) ? Number(after) : undefined);
}
