// Reads a bundle in a page of Chromium, with what every browser has: fetch() and Response.formData().
//
// Usage: node chromium_reader.mjs URL ROOT
//
// The browser is told what to do over its DevTools protocol on two pipes: JSON with a NUL after each message.

import { spawn } from "node:child_process";
import fs from "node:fs";
import os from "node:os";
import path from "node:path";

import { commandLine, report } from "./form_entries.mjs";

const TIME_LIMIT_MS = 60_000;

// As Debian, Ubuntu and its maker call it.
const NAMES = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"];
const folders = process.env.PATH.split(":");
const program = NAMES.flatMap((name) => folders.map((folder) => path.join(folder, name))).find((file) => fs.existsSync(file));
if (!program) throw new Error("chromium is missing; run scripts/test once, or type: apt-get install chromium");

const [url, root] = commandLine();
const profile = fs.mkdtempSync(path.join(os.tmpdir(), "axon-chromium-"));
const flags = [
  "--headless",
  "--remote-debugging-pipe",
  `--user-data-dir=${profile}`,
  "--no-first-run",
  "--no-proxy-server",
  "--disable-gpu",
  "--disable-dev-shm-usage",
  "--disable-quic",
  "--disable-sync",
  "--disable-extensions",
  "--disable-component-update",
  "--disable-background-networking",
  "about:blank",
];
// Its sandbox does not work for root, and what is loaded here is our own.
if (process.getuid() === 0) flags.unshift("--no-sandbox");
const browser = spawn(program, flags, {
  stdio: ["ignore", "ignore", "pipe", "pipe", "pipe"],
  env: { ...process.env, HOME: profile, XDG_CONFIG_HOME: profile, XDG_CACHE_HOME: profile },
});
const [, , complaints, commands, replies] = browser.stdio;
let said = "";
complaints.setEncoding("utf8").on("data", (text) => (said += text));
const ended = new Promise((resolve) => browser.once("close", resolve));

// Each command has a number, and its reply has the same.
const waiting = new Map();
let received = "";
replies.setEncoding("utf8").on("data", (text) => {
  const messages = (received + text).split("\0");
  received = messages.pop();
  for (const message of messages.map((message) => JSON.parse(message))) {
    const { resolve, reject } = waiting.get(message.id) ?? {};
    if (!resolve) continue; // an event
    waiting.delete(message.id);
    if (message.error) reject(new Error(message.error.message));
    else resolve(message.result);
  }
});
let sent = 0;
const tell = (method, params = {}, sessionId = undefined) =>
  new Promise((resolve, reject) => {
    waiting.set(++sent, { resolve, reject });
    commands.write(JSON.stringify({ id: sent, method, params, sessionId }) + "\0");
  });

// Runs in the page.
async function readBundle(url) {
  const answer = await fetch(url, { headers: { Accept: "multipart/form-data" } });
  if (answer.status !== 200) throw new Error(`${answer.status}: ${await answer.text()}`);
  const entries = [];
  for (const [name, file] of await answer.formData()) {
    if (!(file instanceof File)) throw new Error(`${name} is no file`);
    const hash = new Uint8Array(await crypto.subtle.digest("SHA-256", await file.arrayBuffer()));
    const sha256 = Array.from(hash, (byte) => byte.toString(16).padStart(2, "0")).join("");
    entries.push({ name, filename: file.name, length: file.size, sha256 });
  }
  return entries;
}

async function drive() {
  const { product } = await tell("Browser.getVersion");
  // Any page of the same origin.
  const { targetId } = await tell("Target.createTarget", { url: new URL("/api/health", url).href });
  const { sessionId } = await tell("Target.attachToTarget", { targetId, flatten: true });
  // The page may still be the empty one that it begins as.
  const arrived = `new Promise((resolve) => {
    const look = () => (location.pathname === "/api/health" && document.readyState === "complete")
      ? resolve() : setTimeout(look, 10);
    look();
  })`;
  const evaluate = async (expression) => {
    const evaluation = { expression, awaitPromise: true, returnByValue: true };
    const { result, exceptionDetails } = await tell("Runtime.evaluate", evaluation, sessionId);
    if (exceptionDetails) throw new Error(exceptionDetails.exception?.description ?? exceptionDetails.text);
    return result.value;
  };
  // Going to another page ends what was run in the one before.
  for (let tries = 0; ; tries++) {
    try {
      await evaluate(arrived);
      break;
    } catch (error) {
      if (tries === 10) throw error;
    }
  }
  const entries = await evaluate(`(${readBundle})(${JSON.stringify(url)})`);
  report(`formData() of ${product}`, url, root, entries);
}

const late = setTimeout(() => browser.kill("SIGKILL"), TIME_LIMIT_MS);
try {
  const gone = ended.then(() => Promise.reject(new Error(`the browser has ended:\n${said}`)));
  await Promise.race([drive(), gone]);
  tell("Browser.close").catch(() => {});
} catch (error) {
  browser.kill("SIGKILL");
  throw error;
} finally {
  await ended;
  clearTimeout(late);
  fs.rmSync(profile, { recursive: true, force: true, maxRetries: 5 });
}
