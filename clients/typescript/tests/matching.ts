/** Variables and matching of the conformance suite, as its README defines them. */

import { isDeepStrictEqual } from "node:util";
import { milliseconds } from "../src/index.js";

export class Mismatch extends Error {}

export type Variables = Record<string, unknown>;

export function substitute(value: unknown, variables: Variables): any {
  if (typeof value === "string") {
    const lookup = (name: string) => {
      if (!(name in variables)) throw new Error(`unknown variable ${name}`);
      return variables[name];
    };
    const whole = /^\$\{(\w+)\}$/.exec(value);
    return whole ? lookup(whole[1]!) : value.replace(/\$\{(\w+)\}/g, (_, name) => String(lookup(name)));
  }
  if (Array.isArray(value)) return value.map((item) => substitute(item, variables));
  if (value !== null && typeof value === "object") {
    const entries = Object.entries(value).map(([name, item]) => [name, substitute(item, variables)] as const);
    if (entries.length === 1 && entries[0]![0] === "$sum") {
      return (entries[0]![1] as number[]).reduce((sum, number) => sum + number);
    }
    return Object.fromEntries(entries);
  }
  return value;
}

export function point(document: any, pointer: string): unknown {
  for (const part of pointer.split("/").slice(1)) {
    document = document?.[part.replaceAll("~1", "/").replaceAll("~0", "~")];
  }
  if (document === undefined) throw new Mismatch(`nothing at ${pointer}`);
  return document;
}

const MATCHERS: Record<string, (value: any, found: any) => boolean> = {
  $any: (_, found) => found !== undefined && found !== null,
  $absent: (_, found) => found === undefined || found === null,
  $exact: (value, found) => isDeepStrictEqual(value, found),
  $contains: (text, found) => typeof found === "string" && found.includes(text),
  $duration: (value, found) => found != null && milliseconds(value) === milliseconds(found),
  $between: ([low, high], found) => typeof found === "number" && low <= found && found <= high,
  $not: (value, found) => {
    try {
      match(value, found);
      return false;
    } catch (error) {
      if (error instanceof Mismatch) return true;
      throw error;
    }
  },
};

export function match(expected: any, found: any, at = ""): void {
  const wrong = () => new Mismatch(`at ${at || "/"}: expected ${JSON.stringify(expected)}, found ${JSON.stringify(found)}`);
  if (expected === null) {
    if (found !== null && found !== undefined) throw wrong();
  } else if (Array.isArray(expected)) {
    if (!Array.isArray(found) || found.length !== expected.length) throw wrong();
    expected.forEach((item, index) => match(item, found[index], `${at}/${index}`));
  } else if (typeof expected === "object") {
    const names = Object.keys(expected);
    if (names.length === 1 && names[0]!.startsWith("$")) {
      const matcher = MATCHERS[names[0]!];
      if (!matcher) throw new Error(`unknown matcher ${names[0]}`);
      if (!matcher(expected[names[0]!], found)) throw wrong();
      return;
    }
    if (found === null || typeof found !== "object" || Array.isArray(found)) throw wrong();
    names.forEach((name) => match(expected[name], found[name], `${at}/${name}`));
  } else if (expected !== found) {
    throw wrong();
  }
}
