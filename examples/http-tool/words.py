"""A tool in Python, with nothing but its standard library.

    python3 words.py 8000
    tool-worker --http-tool word_count=http://127.0.0.1:8000/
"""

import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

TOOL = {
    "description": "Counts the words of a text.",
    "input": {
        "type": "object",
        "properties": {"text": {"type": "string", "description": "The text."}},
        "required": ["text"],
    },
    "effects": "read_only",
}


class Words(BaseHTTPRequestHandler):
    def do_GET(self):
        self.begin("application/json")
        self.say(TOOL)

    def do_POST(self):
        text = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["text"]
        self.begin("application/x-ndjson")
        words = text.split()
        for done, word in enumerate(words):  # fails when the call was canceled, which ends this thread
            self.say({"progress": word, "share": done / len(words)})
        if words:
            self.say({"result": {"words": len(words), "key": self.headers["Idempotency-Key"]}})
        else:
            self.say({"error": "there are no words"})

    def begin(self, kind):
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.end_headers()

    def say(self, value):
        self.wfile.write(json.dumps(value).encode() + b"\n")


ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Words).serve_forever()
