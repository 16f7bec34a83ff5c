// What the Node readers share: the files they are to find, and the line that says what they found.

import crypto from "node:crypto";
import fs from "node:fs";
import { createRequire } from "node:module";
import path from "node:path";

/** The packages that scripts/test has installed. */
export const installed = createRequire(path.join(process.env.AXON_TEST_ENV, "node", "package.json"));

/** The URL of a bundle and the directory that its files come from. */
export const [url, root] = process.argv.slice(2);

/** The names in the URL's query by their keys, as they are written there: for readers that see no Content-Location. */
export const names = new Map(
  new URL(url).search
    .slice(1)
    .split("&")
    .map((pair) => pair.split("=")),
);

// A name is bytes, so not decodeURIComponent, which gives text.
const decode = (text) =>
  Buffer.from(text.replace(/%([0-9A-F]{2})/g, (_, hex) => String.fromCharCode(parseInt(hex, 16))), "latin1");

/** A part that comes in pieces. */
export class Part {
  location;
  length = 0;
  same = false;
  #hash = crypto.createHash("sha256");

  take(data) {
    this.#hash.update(data);
    this.length += data.length;
  }

  /** Compares what came with the file at the location. */
  end() {
    const name = Buffer.concat([Buffer.from(root), Buffer.from("/"), decode(this.location)]);
    const file = crypto.createHash("sha256").update(fs.readFileSync(name));
    this.same = file.digest("hex") === this.#hash.digest("hex");
  }
}

/** Prints one line of JSON; exit 0 if every part is its file. */
export function report(client, parts) {
  console.log(JSON.stringify({ client, parts }));
  process.exitCode = parts.every((part) => part.same) ? 0 : 1;
}
