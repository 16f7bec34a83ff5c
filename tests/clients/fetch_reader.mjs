// Reads a bundle with nothing but Node, the way a browser does: fetch and Response.formData().
//
// Usage: node fetch_reader.mjs URL ROOT, with AXON_TEST_ENV naming the folder that holds node/node_modules.

import { Part, names, report, url } from "./compare.mjs";

const form = await (await fetch(url)).formData();
const parts = [];
for (const [field, file] of form) {
  const part = new Part();
  parts.push(part);
  part.location = names.get(field);
  part.take(Buffer.from(await file.arrayBuffer()));
  part.end();
}
report(`fetch of Node ${process.versions.node}`, parts);
