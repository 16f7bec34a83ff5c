// Reads a bundle with @fastify/busboy, which takes multipart/form-data only and streams files.
//
// Usage: node busboy_reader.mjs URL ROOT, with AXON_TEST_ENV naming the folder that holds node/node_modules.

import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";

import { Part, installed, names, report, url } from "./compare.mjs";

const { Busboy } = installed("@fastify/busboy");
const { version } = installed("@fastify/busboy/package.json");

const answer = await fetch(url);
const parts = [];
const busboy = new Busboy({ headers: { "content-type": answer.headers.get("content-type") } });
busboy.on("file", (field, stream) => {
  const part = new Part();
  parts.push(part);
  part.location = names.get(field);
  stream.on("data", (data) => part.take(data));
  stream.on("end", () => part.end());
});
busboy.on("field", (field) => {
  throw new Error(`${field} has no file name`);
});
await pipeline(Readable.fromWeb(answer.body), busboy);
report(`@fastify/busboy ${version}`, parts);
