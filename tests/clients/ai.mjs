// Uses two gateways with the AI SDK. When it asks, the test stops the first one and answers with a line.
import assert from "node:assert/strict";
import fs from "node:fs";
import readline from "node:readline";
import { AbstractChat, asSchema, DefaultChatTransport, lastAssistantMessageIsCompleteWithApprovalResponses, safeValidateUIMessages, uiMessageChunkSchema } from "ai";

const [first, second, token, answer] = process.argv.slice(2);
const lines = readline.createInterface({ input: process.stdin })[Symbol.asyncIterator]();
const headers = { Authorization: `Bearer ${token}` };

// State is what useChat keeps in React.
class State {
  status = "ready";
  error = undefined;
  messages = [];
  pushMessage = (m) => (this.messages = [...this.messages, m]);
  popMessage = () => (this.messages = this.messages.slice(0, -1));
  replaceMessage = (i, m) => (this.messages = this.messages.with(i, structuredClone(m)));
  snapshot = (v) => structuredClone(v);
}
class Chat extends AbstractChat {
  constructor(base, id, messages = [], more = {}) {
    const state = Object.assign(new State(), { messages });
    super({
      id, state, sendAutomaticallyWhen: lastAssistantMessageIsCompleteWithApprovalResponses,
      transport: new DefaultChatTransport({ api: `${base}/api/chat`, headers, ...more }),
    });
  }
}
const api = async (base, path, init) => (await fetch(`${base}/api/chat/${path}`, { headers, ...init })).json();
const until = async (what, there) => {
  for (const end = Date.now() + 60_000; !there(); ) {
    assert.ok(Date.now() < end, `${what} did not happen`);
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
};
const plain = (v) => JSON.parse(JSON.stringify(v));
const textOf = (m) => m.parts.filter((p) => p.type === "text").map((p) => p.text).join("");
const call = (m) => m.parts.find((p) => p.type === "dynamic-tool");

// What the gateway has of the chat is what the client has.
const same = async (base, c) => {
  const { messages } = await api(base, c.id);
  const valid = await safeValidateUIMessages({ messages });
  assert.ok(valid.success, valid.error?.message);
  const order = (v) => (v && typeof v === "object" && !Array.isArray(v) ? Object.fromEntries(Object.keys(v).sort().map((k) => [k, order(v[k])])) : Array.isArray(v) ? v.map(order) : v);
  const bare = (list) => list.map(({ id, role, parts }) => order(plain({ id, role, parts: parts.map(({ rawInput, ...p }) => p) })));
  assert.deepEqual(bare(messages), bare(c.messages));
  return messages;
};

// A turn with a tool, for which a person decides.
const chat = new Chat(first, "ui-1");
await chat.sendMessage({ text: "Go" });
assert.equal(chat.error, undefined);
assert.equal(textOf(chat.lastMessage), "I will run it.");
assert.equal(call(chat.lastMessage).state, "approval-requested");
assert.equal(call(chat.lastMessage).toolName, "shell_exec");
await same(first, chat);
const cut = new AbortController();
const leaving = new Chat(first, "ui-1", plain(chat.messages), { fetch: (url, init) => fetch(url, { ...init, signal: cut.signal }) });
await leaving.addToolApprovalResponse({ id: call(leaving.lastMessage).approval.id, approved: true });
await until("the decision", () => leaving.status === "streaming");

// It continues at another gateway, and the first one stops.
cut.abort();
console.log("please stop the first gateway");
await lines.next();
assert.equal(call(leaving.lastMessage).state, "approval-responded");
const back = new Chat(second, "ui-1", plain(leaving.messages));
const rest = back.resumeStream();
await until("the reconnect", () => back.status === "streaming");
fs.writeFileSync(answer, "");
await rest;
assert.equal(back.error, undefined);
assert.equal(back.messages.length, 2);
assert.equal(textOf(back.lastMessage), "I will run it.That was hi");
assert.equal(call(back.lastMessage).state, "output-available");
assert.match(JSON.stringify(call(back.lastMessage).output), /hi/);
assert.ok(back.lastMessage.metadata.usage.totalTokens >= 0);
const messages = await same(second, back);

// A page that is loaded again has the same chat, and nothing to resume.
const again = new Chat(second, "ui-1", messages);
await again.resumeStream();
assert.equal(again.status, "ready");
await again.sendMessage({ text: "more" });
assert.equal(again.messages.length, 4);
await same(second, again);

// Stop, while the tool runs.
fs.rmSync(answer);
const stopped = new Chat(second, "ui-3");
await stopped.sendMessage({ text: "Go" });
await stopped.addToolApprovalResponse({ id: call(stopped.lastMessage).approval.id, approved: true });
await until("the decision", () => stopped.status === "streaming");
await api(second, "ui-3/stop", { method: "POST" });
await until("the end", () => stopped.status === "ready");
assert.equal(stopped.lastMessage.metadata.finishReason, "cancelled");
assert.equal(call(stopped.lastMessage).state, "output-error");
await same(second, stopped);

// A denial, with its reason.
const denied = new Chat(second, "ui-2");
await denied.sendMessage({ text: "Go" });
await denied.addToolApprovalResponse({ id: call(denied.lastMessage).approval.id, approved: false, reason: "not now" });
await until("the answer", () => denied.status === "ready" && textOf(denied.lastMessage) !== "I will run it.");
assert.equal(call(denied.lastMessage).state, "output-denied");
assert.equal(call(denied.lastMessage).approval.reason, "not now");
await same(second, denied);

// What would change the history is refused, with what to do.
await denied.regenerate();
assert.match(denied.error.message, /no_forks/);
const edited = new Chat(second, "ui-2", (await api(second, "ui-2")).messages);
await edited.sendMessage({ text: "Changed", messageId: edited.messages[0].id });
assert.match(edited.error.message, /history_differs/);
await same(second, new Chat(second, "ui-2", (await api(second, "ui-2")).messages));

// Everything that recorded sessions become is valid.
const golden = "../../gateway/internal/uistream/testdata";
for (const file of fs.readdirSync(golden)) {
  for (const line of fs.readFileSync(`${golden}/${file}`, "utf8").split("\n").filter((l) => l.startsWith("{"))) {
    const value = JSON.parse(line);
    const valid = value.role ? await safeValidateUIMessages({ messages: [value] }) : await asSchema(uiMessageChunkSchema).validate(value);
    assert.ok(valid.success, `${file}: ${line}: ${valid.error?.message}`);
  }
}
console.log("done");
process.exit(0);
