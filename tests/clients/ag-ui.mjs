// Uses two gateways with the client of AG-UI. When it asks, the test stops the first one and answers with a line.
import assert from "node:assert/strict";
import fs from "node:fs";
import readline from "node:readline";
import { buildResumeArray, HttpAgent } from "@ag-ui/client";
import { EventSchemas } from "@ag-ui/core/schemas";

const [first, second, token, answer] = process.argv.slice(2);
const lines = readline.createInterface({ input: process.stdin })[Symbol.asyncIterator]();
console.warn = console.error = (...all) => assert.fail(all.join(" ")); // the client warns about what it has to repair

// open returns an agent that keeps the types of the events that it gets, after a check of each.
const open = (base, threadId, more = {}) => {
  const agent = new HttpAgent({ url: `${base}/api/ag-ui`, threadId, headers: { Authorization: `Bearer ${token}` }, ...more });
  agent.types = [];
  agent.subscribe({
    onEvent: ({ event }) => {
      EventSchemas.parse(event);
      agent.types.push(event.type);
    },
    onRunFinishedEvent: ({ outcome, event }) => Object.assign(agent, { outcome, finish: event.metadata?.finishReason, usage: event.usage }),
  });
  return agent;
};
const ask = (agent, content) => {
  agent.addMessage({ id: crypto.randomUUID(), role: "user", content });
  return agent.runAgent();
};
const until = async (what, there) => {
  for (const end = Date.now() + 60_000; !there(); ) {
    assert.ok(Date.now() < end, `${what} did not happen`);
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
};
const approve = (agent, payload) => ({ resume: buildResumeArray(agent.pendingInterrupts, { [agent.pendingInterrupts[0].id]: { status: "resolved", payload } }) });
const roles = (agent) => agent.messages.map((m) => m.role).join(" ");

// A turn with a tool, for which a person decides.
const agent = open(first, "agui-1");
await ask(agent, "Go");
assert.equal(agent.outcome, "interrupt");
assert.equal(agent.pendingInterrupts[0].toolCallId, "t1-r1-c1");
assert.equal(agent.pendingInterrupts[0].reason, "tool_call");
assert.equal(roles(agent), "user assistant");
assert.equal(agent.messages[1].content, "I will run it.");
assert.equal(agent.messages[1].toolCalls[0].function.name, "shell_exec");
assert.equal(agent.state.state, "approval");

// While the tool runs the reader leaves. It continues at another gateway, and the first one stops.
const running = agent.runAgent(approve(agent, { approved: true }));
await until("the run", () => agent.types.filter((t) => t === "RUN_STARTED").length === 2);
await agent.detachActiveRun();
await running;
agent.abortRun();
console.log("please stop the first gateway");
await lines.next();
const back = open(second, "agui-1", { initialMessages: [agent.messages[0], { id: "t9-r9-a9", role: "assistant", content: "half a mess" }] });
const rest = back.runAgent();
await until("the snapshots", () => back.types.includes("MESSAGES_SNAPSHOT"));
assert.deepEqual(back.messages, agent.messages);
fs.writeFileSync(answer, "");
await rest;
assert.equal(back.outcome, "success");
assert.equal(back.finish, "completed");
assert.equal(roles(back), "user assistant tool assistant");
assert.match(back.messages[2].content, /hi/);
assert.equal(back.messages[3].content, "That was hi");
assert.ok(back.usage[0].totalTokens >= 0);

// The thread goes on, and a page that is loaded again has all of it.
await ask(back, "more");
assert.equal(back.messages.at(-1).content, "You said more, and that takes a while to say.");
const again = open(second, "agui-1");
await again.runAgent();
assert.deepEqual(again.messages, back.messages);
assert.equal(again.state.state, "idle");

// A page that is loaded while something is asked gets the question; a denial says why, edited arguments replace the others.
await ask(open(second, "agui-2"), "Go");
const asked = open(second, "agui-2");
await asked.runAgent();
assert.equal(asked.outcome, "interrupt");
await asked.runAgent(approve(asked, { approved: false, reason: "not now" }));
assert.match(asked.messages.find((m) => m.role === "tool").content, /not now/);
const edited = open(second, "agui-3");
await ask(edited, "Go");
await edited.runAgent(approve(edited, { approved: true, editedArgs: { argv: ["printf", "other"] } }));
assert.match(edited.messages.find((m) => m.role === "tool").content, /other/);

// An answer about other arguments than those that are pending is refused; a run without resume shows these.
const stale = open(second, "agui-4");
await ask(stale, "Go");
const shown = stale.pendingInterrupts[0];
assert.deepEqual(shown.metadata.arguments, JSON.parse(stale.messages[1].toolCalls[0].function.arguments));
shown.id = shown.id.replace(/[.].*/, `.${"0".repeat(64)}`); // the digest of others
console.error = () => {};
await assert.rejects(stale.runAgent(approve(stale, { approved: true })), /problem:changed/);
const now = open(second, "agui-4");
await now.runAgent();
await now.runAgent(approve(now, { approved: true }));
assert.match(now.messages.find((m) => m.role === "tool").content, /hi/);

// What would change the history is refused, with what to do.
const changed = open(second, "agui-3", { initialMessages: [{ id: crypto.randomUUID(), role: "user", content: "Changed" }] });
await assert.rejects(changed.runAgent(), /history_differs/);
await assert.rejects(ask(open(second, "agui-3"), "Other"), /history_differs/);

// Everything that recorded sessions become is valid.
const golden = "../../gateway/internal/agui/testdata";
for (const file of fs.readdirSync(golden)) {
  for (const line of fs.readFileSync(`${golden}/${file}`, "utf8").split("\n").filter(Boolean)) EventSchemas.parse(JSON.parse(line));
}
console.log("done");
process.exit(0);
