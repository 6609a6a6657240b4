// A tool in TypeScript. Node runs it from version 22.18 on, without a package:
//
//	node words.ts 8000
//	tool-worker --http-tool word_count=http://127.0.0.1:8000/
import { createServer } from "node:http";
import { text } from "node:stream/consumers";

const tool = {
  description: "Counts the words of a text.",
  input: {
    type: "object",
    properties: { text: { type: "string", description: "The text." } },
    required: ["text"],
  },
  effects: "read_only",
};

type Line = { progress: string; share: number } | { result: unknown } | { error: string };

createServer(async (request, response) => {
  if (request.method === "GET") {
    response.writeHead(200, { "Content-Type": "application/json" }).end(JSON.stringify(tool));
    return;
  }
  const words = (JSON.parse(await text(request)) as { text: string }).text.split(/\s+/).filter(Boolean);
  response.writeHead(200, { "Content-Type": "application/x-ndjson" });
  const say = (line: Line) => response.write(JSON.stringify(line) + "\n");
  for (const [done, word] of words.entries()) {
    if (response.destroyed) return; // the call was canceled
    say({ progress: word, share: done / words.length });
  }
  say(words.length > 0 ? { result: { words: words.length, key: request.headers["idempotency-key"] } } : { error: "there are no words" });
  response.end();
}).listen(Number(process.argv[2]), "127.0.0.1");
