//go:build unix

package docs

// page is what running a page needs besides its text.
type page struct {
	servers int               // of the cluster that the page's programs find; 1 is a single server
	before  []string          // commands that prepare what the page assumes
	skip    map[string]string // commands that do not run here, with the reason
	quotes  map[string]string // blocks that are not commands, by their first line, with what they are
}

const (
	needsKey  = "needs a provider's key"
	needsNATS = "needs the nats command"
	needsNSC  = "needs nsc and an operator"
	needsNode = "needs Node and a package of npm; tests/mcp runs it"
)

// pages has the pages that need anything.
var pages = map[string]page{
	"README.md": {
		skip: map[string]string{
			"go test ./...":           "runs this test",
			"go run ./examples/coder": "reads answers of a person; examples_test.go gives them",
			`go run ./examples/coder --root ~/src/app "Make the tests pass"`: needsKey,
			"go install ./cmd/...": "builds what this test has built",
			`ANTHROPIC_API_KEY=sk-… turnlog run "What does this project do?"`:                                         needsKey,
			`turnlog tools ls --mcp 'files=npx -y @modelcontextprotocol/server-filesystem .'`:                         needsNode,
			`turnlog run --mcp 'files=npx -y @modelcontextprotocol/server-filesystem .' "What is in this directory?"`: needsNode,
		},
	},
	"docs/agent-file.md": {
		servers: 1,
		before:  []string{"turnlog provision --server 127.0.0.1:4222", "tool-worker --server 127.0.0.1:4222 &"},
	},
	"docs/backup.md": {
		servers: 1,
		before: []string{
			"turnlog provision --server 127.0.0.1:4222", "driver-node --server 127.0.0.1:4222 &", `turnlog run --server 127.0.0.1:4222 --session plan-7 "What is here?"`,
			"observer tail plan-7 --from 1 -o jsonl --server 127.0.0.1:4222 &", // until it is parked: then the backup has all of it
		},
	},
	"docs/moving.md": {
		servers: 1,
		before: []string{
			"turnlog provision --server 127.0.0.1:4222", "driver-node --server 127.0.0.1:4222 &", `turnlog run --session plan-7 --server 127.0.0.1:4222 "What is here?"`,
		},
	},
	"docs/evidence.md": {
		servers: 1,
		before: []string{
			"turnlog provision", "driver-node &", "tool-worker &", `turnlog run --session plan-7 "What is here?"`,
			"observer tail plan-7 --from 1 -o jsonl &", // until it is parked: then its node writes nothing unsigned
		},
	},
	"docs/gateway.md": {
		servers: 1,
		before:  []string{"driver-node --tools fs &"},
	},
	"docs/scale.md": {skip: map[string]string{"go run ./tests/scale": "tests/scale compares what it prints"}},
	"docs/mcp.md": {
		skip: map[string]string{
			`turnlog tools ls --mcp 'files=npx -y @modelcontextprotocol/server-filesystem .'`:                                          needsNode,
			`turnlog run --mcp 'files=npx -y @modelcontextprotocol/server-filesystem .' "What is in this directory?"`:                  needsNode,
			"tool-worker --server nats://127.0.0.1:4222 --mcp wiki=https://wiki.example.com/mcp --mcp-token wiki=file:/run/wiki-token": "needs an MCP server on the web",
		},
	},
	"docs/models.md": {
		before: []string{"printf '\\xff\\xd8\\xff\\xe0' > photo.jpg; echo '# Notes' > notes.md"},
		skip: map[string]string{
			`turnlog run --model 'openai:gpt-5.5?effort=low' "What is in this directory?"`:                   needsKey,
			`GEMINI_API_KEY=… turnlog run "hi"`:                                                              needsKey,
			`turnlog run --model 'anthropic:claude-sonnet-5-5?thinking=adaptive&effort=low&cache=short' "…"`: needsKey,
			`OPENAI_BASE_URL=http://127.0.0.1:11434/v1 turnlog run --model openai:qwen3 "…"`:                 "needs a server of models",
			`turnlog run --model anthropic:claude-sonnet-5-5 --model 'openai:gpt-5.5?effort=low' "…"`:        needsKey,
		},
		quotes: map[string]string{
			"replay:hello.jsonl: the request was not recorded; the most similar of 2 is number 1 (- recorded, + requested):": "an error of a model",
		},
	},
	"docs/operations.md": {
		servers: 3,
		before:  []string{"mkdir /mnt/worm", "turnlog provision --profile standard", "driver-node &", `turnlog run "What is here?"`},
		skip: map[string]string{
			"turnlog doctor --profile audit --monitor http://n1:8222 --monitor http://n2:8222 --monitor http://n3:8222": "needs three machines",
			"observer traces --cursor traces.cursor":                                 "needs a collector; cmd/observer tests it with one",
			"install -m 644 docs/systemd/*.service /etc/systemd/system/":             "changes the machine",
			"systemctl daemon-reload":                                                "changes the machine",
			"systemctl enable --now driver-node tool-worker@default turnlog-gateway": "changes the machine",
		},
		quotes: map[string]string{
			"15 3 * * *  turnlog gc --older-than 90d --delete -o json --creds /etc/turnlog/keeper.creds": "a line for cron",
		},
	},
	"docs/permissions.md": {
		skip: map[string]string{
			"nsc import keys --recurse --dir keys": needsNSC,
			"nsc push --all":                       needsNSC,

			`for jwt in keys/accounts/*.jwt; do nsc import account --force --overwrite --file "$jwt"; done`: needsNSC,
		},
	},
	"docs/reliability.md": {
		skip: map[string]string{
			"nats stream edit TURNLOG_INBOX --discard new --max-msgs 1000000 --max-bytes 10GB --force":                needsNATS,
			"nats stream edit TURNLOG_INBOX --discard new --discard-per-subject --max-msgs-per-subject 10000 --force": needsNATS,
			"nats stream edit TURNLOG_TASKS --max-msgs 100000 --force":                                                needsNATS,
		},
	},
	"docs/schedules.md": {
		servers: 1,
		before:  []string{"driver-node &", `turnlog run --session plan-7 "What is here?"`},
	},
	"docs/services.md": {
		servers: 1,
		before:  []string{"turnlog provision"},
		skip:    map[string]string{"python3 examples/http-tool/words.py 8000 &": "needs Python; tests/clients runs it"},
	},
	"docs/time-travel.md": {
		servers: 1,
		before:  []string{"driver-node &", "tool-worker &", `turnlog run --session plan-7 "What is here?"`},
	},
	"docs/tools.md": {
		servers: 1,
		before:  []string{"turnlog provision --server 127.0.0.1:4222", "tool-worker --server 127.0.0.1:4222 &"},
		quotes: map[string]string{
			`fs_read_file {"path":"notes.txt"}          →  notes.txt: lines 1 to 1 of 1 (10 bytes); version e0caefe9dbd4bc56`:        "calls of a model",
			`[The whole output, 9006 bytes, is kept: read it with output_read, id "201f5e89…", by offset and limit or with search.]`: "part of a result",
		},
	},
	"docs/settings.md": {servers: 1},
	"docs/webhooks.md": {
		servers: 1,
		before:  []string{"turnlog provision"},
	},
}
