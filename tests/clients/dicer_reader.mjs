// Reads a bundle with the Dicer of @fastify/busboy, a stream of parts for any multipart type. Its Busboy, like that
// of the package busboy, takes multipart/form-data only.
//
// Usage: node dicer_reader.mjs URL ROOT, with AXON_TEST_ENV naming the folder that holds node/node_modules.

import assert from "node:assert";
import crypto from "node:crypto";
import fs from "node:fs";
import http from "node:http";
import { createRequire } from "node:module";
import path from "node:path";
import { pipeline } from "node:stream/promises";

const require = createRequire(path.join(process.env.AXON_TEST_ENV, "node", "package.json"));
const { Dicer } = require("@fastify/busboy");
const { version } = require("@fastify/busboy/package.json");

const [url, root] = process.argv.slice(2);

// A name is bytes, so not decodeURIComponent, which gives text.
const decode = (text) =>
  Buffer.from(text.replace(/%([0-9A-F]{2})/g, (_, hex) => String.fromCharCode(parseInt(hex, 16))), "latin1");

const answer = await new Promise((resolve, reject) => {
  http.get(url, { timeout: 30_000 }, resolve).on("error", reject);
});
assert.equal(answer.statusCode, 200);
const boundary = answer.headers["content-type"].match(/boundary=([^;]+)/)[1];
const dicer = new Dicer({ boundary });
const parts = [];
dicer.on("part", (part) => {
  const hash = crypto.createHash("sha256");
  const found = { location: undefined, length: 0, same: false };
  parts.push(found);
  part.on("header", (header) => (found.location = header["content-location"][0]));
  part.on("data", (data) => {
    hash.update(data);
    found.length += data.length;
  });
  part.on("end", () => {
    const name = Buffer.concat([Buffer.from(root), Buffer.from("/"), decode(found.location)]);
    const file = crypto.createHash("sha256").update(fs.readFileSync(name));
    found.same = file.digest("hex") === hash.digest("hex");
  });
});
await pipeline(answer, dicer);

console.log(JSON.stringify({ client: `Dicer of @fastify/busboy ${version}`, parts }));
process.exitCode = parts.every((part) => part.same) ? 0 : 1;
