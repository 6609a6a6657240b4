// Uses two gateways with OpenAI's client. When it asks, the test stops the first one and answers with a line.
import assert from "node:assert/strict";
import fs from "node:fs";
import readline from "node:readline";
import OpenAI from "openai";

const [first, second, token, answer] = process.argv.slice(2);
fs.writeFileSync(answer, "");
const lines = readline.createInterface({ input: process.stdin })[Symbol.asyncIterator]();
const open = (baseURL) => new OpenAI({ baseURL, apiKey: token, maxRetries: 0 });
let client = open(first);

const models = [];
for await (const m of client.models.list()) models.push(m.id);
assert.equal(models.length, 1);
const model = models[0];

// A turn with a tool, for which a person decides.
const asked = await client.responses.create({ model, input: "Go" });
assert.equal(asked.status, "completed");
const request = asked.output.find((o) => o.type === "mcp_approval_request");
assert.equal(request.name, "shell_exec");
const decided = await client.responses.create({
  model, previous_response_id: asked.id, input: [{ type: "mcp_approval_response", approval_request_id: request.id, approve: true }],
});
assert.equal(decided.output_text, "That was hi");
const call = decided.output.find((o) => o.type === "mcp_call");
assert.equal(call.status, "completed");
assert.match(call.output, /hi/);

// The client's own helper follows a stream to its end.
const helper = client.responses.stream({ model, previous_response_id: decided.id, input: "stream" });
let text = "";
helper.on("response.output_text.delta", (e) => (text += e.delta));
const final = await helper.finalResponse();
assert.equal(final.output_text, text);
assert.equal(text, "You said stream, and that takes a while to say.");

// A reader that leaves in the middle continues at another gateway; the first one stops.
const stream = await client.responses.create({ model, previous_response_id: final.id, input: "reconnect", background: true, stream: true });
let id, last, got = "";
for await (const e of stream) {
  last = e.sequence_number;
  if (e.type === "response.created") id = e.response.id;
  if (e.type === "response.output_text.delta") got += e.delta;
  if (got.length > 5) break;
}
console.log("please stop the first gateway");
await lines.next();
client = open(second);
let completed;
for await (const e of await client.responses.retrieve(id, { stream: true, starting_after: last })) {
  assert.ok(e.sequence_number > last);
  last = e.sequence_number;
  if (e.type === "response.output_text.delta") got += e.delta;
  if (e.type === "response.completed") completed = e.response;
}
assert.equal(got, "You said reconnect, and that takes a while to say.");
assert.equal(completed.id, id);
assert.deepEqual((await client.responses.retrieve(id)).output, completed.output);
assert.ok(completed.usage.total_tokens >= 0);

// Cancel.
const running = await client.responses.create({ model, conversation: completed.conversation.id, input: "cancel", background: true });
assert.equal(running.status, "in_progress");
const cancelled = await client.responses.cancel(running.id);
assert.equal(cancelled.id, running.id);

// Conversations.
const talk = await client.conversations.create({ metadata: { topic: "tea" } });
assert.deepEqual([talk.object, talk.metadata.topic], ["conversation", "tea"]);
const reply = await client.responses.create({ model, conversation: talk.id, input: "tea" });
assert.deepEqual([reply.conversation.id, reply.status], [talk.id, "completed"]);
assert.deepEqual(await client.conversations.retrieve(talk.id), talk);
const items = [];
for await (const item of client.conversations.items.list(talk.id, { order: "asc", limit: 1 })) items.push(item);
assert.deepEqual([items[0].role, items[0].content[0].text], ["user", "tea"]);
assert.deepEqual(items.slice(1), reply.output);
assert.deepEqual((await client.conversations.items.list(talk.id)).data, items.toReversed());
assert.deepEqual(await client.conversations.items.retrieve(items[0].id, { conversation_id: talk.id }), items[0]);
await assert.rejects(client.conversations.items.retrieve("msg_none", { conversation_id: talk.id }), OpenAI.NotFoundError);
await assert.rejects(client.conversations.retrieve("conv_none"), OpenAI.NotFoundError);
for (const change of [
  () => client.conversations.delete(talk.id), () => client.conversations.update(talk.id, { metadata: {} }),
  () => client.conversations.items.delete(items[0].id, { conversation_id: talk.id }),
  () => client.conversations.items.create(talk.id, { items: [{ type: "message", role: "user", content: "x" }] }),
]) await assert.rejects(change, (e) => e.status === 405 && e.code === "append_only");

// Chats.
const messages = [{ role: "user", content: "Go" }];
const headers = { "X-Turnlog-Chat-Id": "chat-1" };
const chunks = await client.chat.completions.create({ model, messages, stream: true, stream_options: { include_usage: true } }, { headers }).withResponse();
const session = chunks.response.headers.get("x-turnlog-session");
const api = (path, init) => fetch(second.replace("/v1", path), { headers: { Authorization: `Bearer ${token}`, "Content-Type": "application/json" }, ...init });
let waiting = [];
while (waiting.length === 0) ({ approvals: waiting } = await (await api(`/api/approvals?session=${session}`)).json());
const approval = await api(`/api/approvals/${session}/${waiting[0].id}`, { method: "POST", body: JSON.stringify({ decision: "approve" }) });
assert.equal(approval.status, 200);
let said = "", finish, usage;
for await (const c of chunks.data) {
  said += c.choices[0]?.delta?.content ?? "";
  finish = c.choices[0]?.finish_reason ?? finish;
  usage = c.usage ?? usage;
}
assert.deepEqual([said, finish], ["I will run it.\n\nThat was hi", "stop"]);
assert.ok(usage.total_tokens >= 0);
messages.push({ role: "assistant", content: said }, { role: "user", content: "chat" });
const chat = await client.chat.completions.create({ model, messages }, { headers });
assert.equal(chat.choices[0].message.content, "You said chat, and that takes a while to say.");

// Errors have the classes of the client.
await assert.rejects(client.chat.completions.create({ model, messages, n: 2 }), (e) => e instanceof OpenAI.BadRequestError && e.param === "n");
await assert.rejects(client.responses.retrieve("resp_none.1"), OpenAI.NotFoundError);
await assert.rejects(client.responses.create({ model, previous_response_id: asked.id.replace(/\.\d+$/, ".1"), input: "x" }), OpenAI.ConflictError);
await assert.rejects(new OpenAI({ baseURL: second, apiKey: "wrong", maxRetries: 0 }).models.list(), OpenAI.AuthenticationError);
console.log("done");
process.exit(0);
