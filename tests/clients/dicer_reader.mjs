// Reads a bundle of any multipart type with the Dicer of @fastify/busboy, which streams parts.
//
// Usage: node dicer_reader.mjs URL ROOT, with AXON_TEST_ENV naming the folder that holds node/node_modules.

import { once } from "node:events";

import { Part, installed, report, url } from "./compare.mjs";

const { Dicer } = installed("@fastify/busboy");
const { version } = installed("@fastify/busboy/package.json");

const answer = await fetch(url);
const boundary = answer.headers.get("content-type").match(/boundary=([^;]+)/)[1];
const parts = [];
const ends = [];
const dicer = new Dicer({ boundary });
dicer.on("part", (stream) => {
  const part = new Part();
  parts.push(part);
  stream.on("header", (header) => (part.location = header["content-location"][0]));
  stream.on("data", (data) => part.take(data));
  ends.push(once(stream, "end").then(() => part.end()));
});
// Its "finish" may come before its last part has ended, or never after its end(), so stream.pipeline cannot be used:
// every write is waited for, then every part.
for await (const piece of answer.body) {
  await new Promise((resolve) => dicer.write(piece, resolve));
}
dicer.end();
await Promise.all(ends);
report(`Dicer of @fastify/busboy ${version}`, parts);
