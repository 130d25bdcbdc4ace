/**
 * Verifies the signatures of pushed jobs, by the rules of Standard Webhooks.
 */

import { createHmac, timingSafeEqual } from "node:crypto";
import { SignatureError } from "./errors.js";

export interface VerifyOptions {
  /** The time in seconds since 1970. Defaults to now. */
  now?: number;
  /** By how many seconds the request's time may differ. Defaults to 300. */
  tolerance?: number;
}

type HeaderSource = Headers | Record<string, string | string[] | undefined>;

/** Returns the signature `v1,…` of a request, for tests of a receiver. */
export function signWebhook(
  secret: string, id: string, timestamp: number, body: string | Uint8Array,
): string {
  const mac = createHmac("sha256", keyOf(secret)).update(`${id}.${timestamp}.`).update(body);
  return `v1,${mac.digest("base64")}`;
}

/**
 * Returns the id of the job if the request is signed with the secret; otherwise throws a
 * `SignatureError`. `body` is the body as it was received. One valid signature of several is enough,
 * so that secrets can be rotated.
 */
export function verifyWebhook(
  secret: string, headers: HeaderSource, body: string | Uint8Array, options: VerifyOptions = {},
): string {
  const id = header(headers, "webhook-id");
  const timestamp = header(headers, "webhook-timestamp");
  const given = header(headers, "webhook-signature");
  if (!/^\d{1,15}$/.test(timestamp)) {
    throw new SignatureError(`webhook-timestamp must be seconds since 1970, got "${timestamp}"`);
  }
  const tolerance = options.tolerance ?? 300;
  if (Math.abs((options.now ?? Date.now() / 1000) - Number(timestamp)) > tolerance) {
    throw new SignatureError(`webhook-timestamp ${timestamp} differs from now by more than ${tolerance} s`);
  }
  const expected = Buffer.from(signWebhook(secret, id, Number(timestamp), body));
  const matches = given.split(" ").map((signature) => {
    const bytes = Buffer.from(signature);
    return bytes.length === expected.length && timingSafeEqual(bytes, expected);
  });
  if (!matches.includes(true)) {
    throw new SignatureError("no signature matches: the secret or the body is another one");
  }
  return id;
}

function header(headers: HeaderSource, name: string): string {
  let value: string | string[] | null | undefined;
  if (headers instanceof Headers) {
    value = headers.get(name);
  } else {
    const found = Object.entries(headers).find(([other]) => other.toLowerCase() === name);
    value = found?.[1];
  }
  if (typeof value !== "string") throw new SignatureError(`the header ${name} is missing`);
  return value;
}

function keyOf(secret: string): Buffer {
  const encoded = /^whsec_([A-Za-z0-9+/]+={0,2})$/.exec(secret)?.[1];
  if (encoded === undefined) throw new SignatureError("the secret must be whsec_ followed by base64");
  return Buffer.from(encoded, "base64");
}
