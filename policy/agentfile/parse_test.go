package agentfile_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/turnlog/turnlog/policy/agentfile"
)

const full = `# every key
name: reviewer
description: Reviews changes
model: anthropic:claude
fallback: [openai:gpt]
system_file: prompt.md
context: {agents_md: nearest, skills: [skills], specs: [specs]}
tools:
  - {name: "fs_*", permission: allow}
  - {name: shell_exec, permission: ask, route: "detach:30s", effects: none, exclusive: true, timeout: 5m, max_output: 20000}
  - {name: "*", permission: deny}
mcp:
  everything: {command: [server, stdio], env: {KEY: "env:KEY"}, timeout: 30s}
  docs: {url: "https://127.0.0.1/mcp", headers: {X-Api-Key: "file:/run/token", X-Team: a}, token: "env:DOCS_TOKEN"}
agents: [tester]
permissions:
  paths: {protect: [.git], read_only: [vendor], allow: ["."], outside: deny}
  commands: {allow: [go], ask: [git], deny: [rm], dirs: ["."], allow_env: ["GO*"], deny_env: [HOME], outside: ask, code: deny}
  servers: {trust: [docs], deny: [evil], scopes: [read], outside: deny}
  kinds: {allow: [filesystem.read], ask: [mail], deny: [mail.send]}
limits: {rounds: 20, tokens: 100000, wall_clock: 10m}
session_limits: {cost_micros: 5000000}
max_parallel: 4
on_busy: steer
retry: {model_attempts: 2}
approvals: {ttl: 24h, ask_lost: true}
compaction:
  window: 200000
  steps:
    - drop_reasoning: true
    - summarise: {model: "openai:small", keep_items: 20}
guardrails:
  input: [{name: long, max_length: 10000}]
  results: [{deny: ["secret-[0-9]+"], warn: true}]
hooks:
  - {points: [pre_tool_execution], tools: ["shell_*"], command: ./check.sh, timeout: 5s}
  - {name: audit, points: [session_start, session_end], command: "true", fail_open: true}
gate: {command: go test ./..., max_retries: 2}
memory: {scope: agent, ttl: 168h}
output: {schema: {type: object, properties: {ok: {type: boolean}}}}
cache: {mode: best_effort, retention: short}
`

func files() agentfile.ReadFunc {
	return fstest.MapFS{"prompt.md": {Data: []byte("Be brief.\n")}, "bad.json": {Data: []byte("{")}}.ReadFile
}

func TestAFileWithEveryKeyIsRead(t *testing.T) {
	t.Parallel()
	d, err := agentfile.Parse("full.yaml", []byte(full), files())
	if err != nil {
		t.Fatal(err)
	}
	if d.System != "Be brief.\n" || d.SystemFile != "" || d.Tools[1].Route != "detach:30s" || d.Limits.Rounds != 20 {
		t.Errorf("Parse = %+v", d)
	}
	raw, err := d.Encode()
	if err != nil {
		t.Fatal(err)
	}
	again, err := agentfile.Parse("again.yaml", raw, nil)
	if diff := cmp.Diff(d, again); err != nil || diff != "" {
		t.Errorf("the canonical form reads as another definition: %v (-want +got):\n%s", err, diff)
	}
}

func TestAVersionNamesTheWholeDefinition(t *testing.T) {
	t.Parallel()
	version := func(text string, read agentfile.ReadFunc) string {
		d, err := agentfile.Parse("a.yaml", []byte(text), read)
		if err != nil {
			t.Fatal(err)
		}
		v, err := d.Version()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	was := version(full, files())
	other := fstest.MapFS{"prompt.md": {Data: []byte("Be long.\n")}}.ReadFile
	for name, v := range map[string]string{
		"another prompt": version(full, other),
		"another limit":  version(strings.Replace(full, "rounds: 20", "rounds: 21", 1), files()),
	} {
		if v == was {
			t.Errorf("%s: version is %s still", name, v)
		}
	}
	if v := version(strings.Replace(full, "# every key\n", "", 1), files()); v != was {
		t.Errorf("without a comment the version is %s, want %s", v, was)
	}
}

func TestAnAgentWithoutANameTakesThatOfItsFile(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"{}", "model: demo\n"} {
		d, err := agentfile.Parse("dir/plain.yaml", []byte(text), nil)
		if err != nil || d.Name != "plain" {
			t.Errorf("Parse(%q) = %+v, %v", text, d, err)
		}
	}
}

func TestProblemsAreReportedWithTheirLine(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ text, want string }{
		{"model: [", "a.yaml:1:"},
		{"name: a\nengine: x", "a.yaml:2:1: unknown field \"engine\""},
		{"name: a\nname: b", "a.yaml:2:1: "},
		{"max_parallel: many", "a.yaml:1:15: "},
		{"a: 1\n---\nb: 2", "a.yaml"},
		{"name: Bad Name", `a.yaml:1:7: name: "Bad Name": use 1 to 64`},
		{"model: x\non_busy: wait", `a.yaml:2:10: on_busy: "wait": use queue, steer, interrupt or reject`},
		{"tools:\n  - permission: ask", "a.yaml:2:5: tools[0]: missing property 'name'"},
		{"tools:\n  - name: x\n    route: later", `a.yaml:3:12: tools[0].route: "later": use foreground`},
		{"tools: [{name: x, route: 'detach:-1s'}]", `"-1s": use a positive duration`},
		{"mcp:\n  x: {timeout: 3s}", "a.yaml:2:7: mcp.x: give exactly one of command and url"},
		{"mcp:\n  x: {url: 'ftp://h'}", `mcp.x.url: use a URL`},
		{"mcp:\n  x: {url: 'http://u:p@h'}", "holds a password"},
		{"mcp:\n  x: {command: [a], headers: {A: b}}", "mcp.x.headers: needs url"},
		{"mcp:\n  X y: {command: [a]}", `mcp: "X y": use 1 to 64`},
		{"mcp: {x: {command: [a]}, x_y: {command: [a]}}", "mcp: servers x and x_y"},
		{"agents: [a, b]", "agents[0]: a would delegate to itself"},
		{"agents: [b, b]", "agents[1]: is the same as entry 0"},
		{"limits:\n  rounds: -1", "a.yaml:2:11: limits.rounds: minimum: got -1, want 1"},
		{"limits: {wall_clock: soon}", `limits.wall_clock: "soon": use a positive duration`},
		{"fallback: [x:y]", "fallback: needs model"},
		{"compaction: {items: 3}", "compaction: missing property 'steps'"},
		{"compaction: {steps: [{keep_items: 2}]}", "compaction: give at least one of items and window"},
		{"compaction: {items: 3, steps: [{keep_items: 2, keep_turns: 1}]}", "compaction.steps[0]: give exactly one of drop_reasoning"},
		{"guardrails: {input: [{name: x}]}", "guardrails.input[0]: give exactly one of max_length and deny"},
		{"guardrails: {input: [{deny: ['(']}]}", "guardrails.input[0].deny[0]: not a regular expression: error parsing regexp"},
		{"gate: {max_retries: 1}", "gate: missing property 'command'"},
		{"tools:\n  - {name: x, effects: some}", `a.yaml:2:24: tools[0].effects: "some": use read_only, idempotent or none`},
		{"tools: [{name: x, timeout: 0s}]", `tools[0].timeout: "0s": use a positive duration`},
		{"tools: [{name: x, max_output: -1}]", "tools[0].max_output: minimum: got -1, want 1"},
		{"tools: [{name: x, exclusive: sometimes}]", "tools[0].exclusive: got string, want boolean"},
		{"max_parallel: 1.5", "a.yaml:1:15: max_parallel: got number, want integer"},
		{"limits: 5", "a.yaml:1:9: limits: got number, want object"},
		{"agents: tester", "agents: got string, want array"},
		{"- a", "a.yaml:1:1: got array, want object"},
		{"name: a\ntool: []", `a.yaml:2:1: unknown field "tool": did you mean tools?`},
		{"mcp:\n  x:\n    url: 'http://h'\n    token: abc", "a.yaml:4:12: mcp.x.token: write env:NAME"},
		{"mcp:\n  x:\n    url: 'http://h'\n    headers: {Authorization: Bearer abc}", "a.yaml:4:30: mcp.x.headers.Authorization: looks like a secret"},
		{"mcp: {x: {url: 'http://h/?api_key=abc'}}", "mcp.x.url: its api_key looks like a secret"},
		{"mcp: {x: {command: [a], env: {NOTES_TOKEN: abc}}}", "mcp.x.env.NOTES_TOKEN: looks like a secret"},
		{"mcp: {x: {command: [a], token: 'env:B'}}", "mcp.x.token: needs url"},
		{"hooks: [{points: [pre_tool_execution]}]", "hooks[0]: missing property 'command'"},
		{"hooks: [{command: x}]", "hooks[0]: missing property 'points'"},
		{"hooks: [{command: x, points: [before_model]}]", `hooks[0].points[0]: "before_model": use session_start`},
		{"hooks: [{command: x, points: [pre_llm_call], tools: [a]}]", "hooks[0].points[0]: tools are for pre_tool_execution and post_tool_execution"},
		{"hooks: [{command: x, points: [pre_llm_call], name: guardrail}]", "hooks[0]: two hooks are called guardrail"},
		{"hooks: [{command: x, points: [pre_llm_call], timeout: x}]", `hooks[0].timeout: "x": use a positive duration`},
		{"permissions: {}", "permissions: give at least one of paths, commands, servers and kinds"},
		{"tools: !x y", "a.yaml:1:8: anchors, aliases and tags of YAML are refused"},
		{"a: &a !x y\ntools: *a", "a.yaml"},
		{"max_parallel: !x y", "a.yaml"},
		{"permissions: {paths: {outside: allow}}", `permissions.paths.outside: "allow": use ask or deny`},
		{"permissions: {commands: {allow: [bin/x]}}", `permissions: command policy: program "bin/x": use a name or an absolute path`},
		{"permissions: {commands: {code: maybe}}", `permissions.commands.code: "maybe": use allow, ask or deny`},
		{"permissions: {servers: {outside: allow}}", `permissions.servers.outside: "allow"`},
		{"permissions: {kinds: {deny: ['']}}", "permissions.kinds.deny[0]: minLength: got 0, want 1"},
		{"output: {}", "output: give exactly one of schema and schema_file"},
		{"output: {schema: {type: 7}}", "output.schema: "},
		{"output: {schema_file: bad.json}", "output.schema_file: bad.json: unexpected end"},
		{"system_file: none.md", "system_file: "},
		{"system: a\nsystem_file: prompt.md", "a.yaml:2:14: system_file: give only one of system and system_file"},
		{strings.Repeat("# long\n", 40000), "bytes, more than"},
	} {
		_, err := agentfile.Parse("a.yaml", []byte(tt.text), files())
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("Parse(%.60q) = %v, want %q", tt.text, err, tt.want)
		}
	}
}

func TestEveryStepReportsAllOfItsProblems(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, text, want string }{
		{"syntax", "name: A\nsystem: \"never closed\nlimits: 5\n", `a.yaml:2:9: could not find end character of double-quoted text`},
		{"schema", `name: A
tools:
  - {name: x, permision: ask}
  - {permission: perhaps, timeout: {a: b}}
  - y
limits: {rounds: many, tokens: -1}
hooks:
  - command: x
    points: [nowhere]
context: {skills: [skills, ../x], specs: [/etc]}
permissions: {kinds: {allow: [filesystem.reed, mail.send], deny: ["shell.*"]}}
engine: fast
fallback: [a]
`, `a.yaml:1:7: name: "A": use 1 to 64 of a-z, 0-9, - and _, a letter or digit first
a.yaml:3:15: unknown field "permision": did you mean permission?
a.yaml:4:6: tools[1]: missing property 'name'
a.yaml:4:18: tools[1].permission: "perhaps": use allow, ask, deny or guard
a.yaml:4:37: tools[1].timeout: got object, want string
a.yaml:5:5: tools[2]: got string, want object
a.yaml:6:18: limits.rounds: got string, want integer
a.yaml:6:32: limits.tokens: minimum: got -1, want 1
a.yaml:9:14: hooks[0].points[0]: "nowhere": use session_start, loop_iteration, pre_llm_call, post_llm_call, pre_tool_execution, post_tool_execution, context_compaction or session_end
a.yaml:10:28: context.skills[1]: "../x": use a relative path to a folder inside the agent's folder
a.yaml:10:43: context.specs[0]: "/etc": use a relative path to a folder inside the agent's folder
a.yaml:11:31: permissions.kinds.allow[0]: "filesystem.reed": there is no such kind: did you mean filesystem.read?
a.yaml:11:67: permissions.kinds.deny[0]: "shell.*": write a kind like filesystem.read; filesystem matches all below it
a.yaml:12:1: unknown field "engine"
a.yaml:13:11: fallback: needs model`},
		{"meaning", `name: a
agents: [a]
mcp: {x: {command: [server, --token, abc]}}
hooks: [{command: x, points: [pre_llm_call], tools: [a]}]
`, `a.yaml:2:10: agents[0]: a would delegate to itself
a.yaml:3:29: mcp.x.command[1]: looks like a secret: pass it to the command in env, as env:NAME or file:PATH
a.yaml:4:31: hooks[0].points[0]: tools are for pre_tool_execution and post_tool_execution: there is no call at pre_llm_call`},
	} {
		_, err := agentfile.Parse("a.yaml", []byte(tt.text), nil)
		if diff := cmp.Diff(tt.want, fmt.Sprint(err)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
	}
}
