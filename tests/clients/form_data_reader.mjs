// Reads a bundle with what Node has itself: fetch() and Response.formData().
//
// Usage: node form_data_reader.mjs URL ROOT

import crypto from "node:crypto";

import { commandLine, report } from "./form_entries.mjs";

const [url, root] = commandLine();
const answer = await fetch(url, { headers: { Accept: "multipart/form-data" }, signal: AbortSignal.timeout(30_000) });
if (answer.status !== 200) throw new Error(`${answer.status}: ${await answer.text()}`);
const entries = [];
for (const [name, file] of await answer.formData()) {
  if (!(file instanceof File)) throw new Error(`${name} is no file`);
  const content = Buffer.from(await file.arrayBuffer());
  const sha256 = crypto.createHash("sha256").update(content).digest("hex");
  entries.push({ name, filename: file.name, length: file.size, sha256 });
}
report(`formData() of Node ${process.versions.node}`, url, root, entries);
