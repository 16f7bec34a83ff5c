// What the readers of form data share, which need no package: the files they are to find, and the line that says what
// they found.

import crypto from "node:crypto";
import fs from "node:fs";

const sha256 = (content) => crypto.createHash("sha256").update(content).digest("hex");

// The URL of a bundle and the directory that its files come from.
export function commandLine() {
  if (process.argv.length !== 4) {
    console.error(`usage: node ${process.argv[1]} URL ROOT`);
    process.exit(2);
  }
  return process.argv.slice(2);
}

// A name is bytes, so not decodeURIComponent, which gives text.
const bytes = (text) =>
  Buffer.from(text.replace(/%([0-9A-Fa-f]{2})/g, (_, hex) => String.fromCharCode(parseInt(hex, 16))), "latin1");

// Compares each {name, filename, length, sha256} with the file that the URL names in its place, prints one line of
// JSON, and sets the exit code: 0 if all are the same.
export function report(client, url, root, entries) {
  const files = new URL(url).search.slice(1).split("&").map((pair) => pair.split("="));
  const parts = entries.map(({ name, filename, length, sha256: hash }, index) => {
    const [parameter, path] = files[index] ?? [];
    const file = path && Buffer.concat([Buffer.from(root), Buffer.from("/"), bytes(path)]);
    const same = name === parameter && hash === sha256(fs.readFileSync(file));
    return { name, filename, length, same };
  });
  console.log(JSON.stringify({ client, parts }));
  process.exitCode = parts.length === files.length && parts.every((part) => part.same) ? 0 : 1;
}
