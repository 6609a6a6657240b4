// A microservice of NATS in TypeScript, whose endpoint is a tool. Node runs it from version 22.18 on, with
// "npm install @nats-io/transport-node @nats-io/services":
//
//	node words.ts nats://127.0.0.1:4222
//	tool-worker --nats-service words
import { Svcm } from "@nats-io/services";
import { connect, headers } from "@nats-io/transport-node";

const nc = await connect({ servers: process.argv[2] });
const service = await new Svcm(nc).add({ name: "words", version: "1.0.0", description: "Counts words." });

const canceled = new Set<string>(); // the idempotency keys of calls that ended early
nc.subscribe("words.cancel", { callback: (_, m) => canceled.add(m.headers?.get("Idempotency-Key") ?? "") });

service.addGroup("words").addEndpoint("count", {
  metadata: {
    description: "Counts the words of a text.",
    input: JSON.stringify({
      type: "object",
      properties: { text: { type: "string", description: "The text." } },
      required: ["text"],
    }),
    effects: "read_only",
  },
  handler: (_, call) => {
    const key = call.headers?.get("Idempotency-Key") ?? "";
    const words = (call.json() as { text: string }).text.split(/\s+/).filter(Boolean);
    for (const [done, word] of words.entries()) {
      if (canceled.delete(key)) return;
      const progress = headers();
      progress.set("Turnlog-Progress", String(done / words.length));
      call.respond(word, { headers: progress });
    }
    if (words.length > 0) call.respond(JSON.stringify({ words: words.length, key }));
    else call.respondError(400, "there are no words");
  },
});
console.log("serving");
