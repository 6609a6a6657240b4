package agentfile_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/policy/agentfile"
)

func TestValuesOfTheWrongTypeAreReported(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ text, want string }{
		{"", "a.yaml: is empty: give at least a model"},
		{"# nothing\n", "a.yaml: is empty"},
		{"null\n", "a.yaml: is empty"},
		{"---\n", "a.yaml: is empty"},
		{"demo", "a.yaml:1:1: got string, want object"},
		{"model: 7", "a.yaml:1:8: model: got number, want string"},
		{"system: true", "a.yaml:1:9: system: got boolean, want string"},
		{"description: 1.5", "got number, want string"},
		{"model:\nsystem: x", "a.yaml:1:7: model: got null, want string"},
		{"model: ~", "model: got null, want string"},
		{"fallback: [a, null]\nmodel: demo", "fallback[1]: got null, want string"},
		{"mcp: {x: {command: [server, 8080]}}", "mcp.x.command[1]: got number, want string"},
		{"mcp: {x: {command: [a], env: {PORT: 8080}}}", "mcp.x.env.PORT: got number, want string"},
		{"fail_run: yes", "fail_run: got string, want boolean"},
		{"fail_run: 1", "fail_run: got number, want boolean"},
		{"max_parallel: '3'", "max_parallel: got string, want integer"},
		{"max_parallel: 0", "a.yaml:1:15: max_parallel: got 0, want a number from 1 up, or -1"},
		{"max_parallel: -2", "minimum: got -2, want -1"},
		{"gate: {command: x, max_retries: 0}", "gate.max_retries: got 0, want a number from 1 up, or -1"},
		{"output: {schema: {}, repairs: 0}", "output.repairs: got 0, want a number from 1 up, or -1"},
		{"limits: {rounds: 0}", "limits.rounds: minimum: got 0, want 1"},
		{"limits: {rounds: 99999999999999999999}", "limits.rounds: got string, want integer"},
		{"limits: {rounds: 18446744073709551615}", "limits.rounds: 18446744073709551615: the number is too large"},
		{"limits: {rounds: -5}", "limits.rounds: minimum: got -5, want 1"},
		{"limits: {rounds: 010}", "limits.rounds: 010: write the number in decimal digits"},
		{"limits: {rounds: 0x10}", "limits.rounds: 0x10: write the number in decimal digits"},
		{"limits: {rounds: 1e3}", "limits.rounds: got string, want integer"},
		{"limits: {rounds: .inf}", "limits.rounds: got string, want integer"},
		{"limits: {wall_clock: 30}", "limits.wall_clock: got number, want string"},
		{"limits: {wall_clock: '30'}", `limits.wall_clock: "30": add the unit: write 30s for seconds`},
		{"limits: {wall_clock: 2d}", `limits.wall_clock: "2d": use a positive duration like 90s or 24h; the units are ms, s, m and h`},
		{"limits: {wall_clock: 10 minutes}", `limits.wall_clock: "10 minutes": use a positive duration`},
		{"context: {agents_md: true}", "context.agents_md: got boolean, want string"},
		{"mcp:\n- name: x", "mcp: got array, want object"},
		{"system: |\nYou are\nlines\n", "a.yaml:2:1: non-map value is specified: if this belongs to the text or list above, indent it"},
		{"limits: {wall_clock: 99999999h}", `limits.wall_clock: "99999999h": use a positive duration`},
		{"limits: {wall_clock: -5m}", `limits.wall_clock: "-5m": use a positive duration`},
		{"limits: {wall_clock: ''}", `limits.wall_clock: "": use a positive duration`},
		{"compaction: {window: 9, share: .nan, steps: [{keep_items: 1}]}", "compaction.share: got string, want number"},
		{"compaction: {window: 9, share: 75, steps: [{keep_items: 1}]}", "compaction.share: maximum: got 75, want 1"},
		{"compaction: {window: 9, share: 0, steps: [{keep_items: 1}]}", "compaction.share: exclusiveMinimum: got 0, want 0"},
		{"tools: []", "a.yaml:1:8: tools: minItems: got 0, want 1"},
		{"permissions: {commands: {allow: []}}", "permissions.commands.allow: minItems: got 0, want 1"},
		{"tools:\n  fs: allow", "tools: got object, want array"},
		{"mcp: {x: {command: npx -y @acme/notes}}", "mcp.x.command: got string, want array"},
		{"gate: {command: ' '}", "gate.command: is empty"},
		{"name: '!'", `name: "!": use 1 to 64 of a-z, 0-9, - and _, a letter or digit first`},
		{"memory: true", "memory: got boolean, want object"},
		{"agents: tester", "agents: got string, want array"},
		{"gate: go test ./...", "gate: got string, want object"},
	} {
		_, err := agentfile.Parse("a.yaml", []byte(tt.text), files())
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("Parse(%.60q) = %v, want %q", tt.text, err, tt.want)
		}
	}
}

func TestSecretsInAFileAreReported(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"mcp: {x: {command: [server, --api-key, abc]}}":                               "mcp.x.command[1]: looks like a secret: pass it to the command in env",
		"mcp: {x: {command: [server, --token=abc]}}":                                  "mcp.x.command[1]: looks like a secret",
		"mcp: {x: {command: [server, ghp_0123456789abcdefghij0123]}}":                 "mcp.x.command[1]: looks like a secret",
		"mcp: {x: {command: [server], env: {X: sk-ant-0123456789abcdefghij}}}":        "mcp.x.env.X: looks like a secret",
		"mcp: {x: {url: 'http://h', headers: {X-Team: sk-ant-0123456789abcdefghij}}}": "mcp.x.headers.X-Team: looks like a secret",
	} {
		if _, err := agentfile.Parse("a.yaml", []byte(text), nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Parse(%q) = %v, want %q", text, err, want)
		}
	}
	for _, text := range []string{"mcp: {x: {command: [server, --keyring, a, --token-file, b, --token]}}", "mcp: {x: {command: [server], env: {X: sk-short}}}"} {
		if _, err := agentfile.Parse("a.yaml", []byte(text), nil); err != nil {
			t.Errorf("Parse(%q) = %v", text, err)
		}
	}
}

func TestYAMLIsReadStrictly(t *testing.T) {
	t.Parallel()
	const advice = "anchors, aliases and tags of YAML are refused: quote a text that begins with &, * or !"
	for _, tt := range []struct{ text, want string }{
		{"model: demo\n---\nmodel: demo\n", "a.yaml:2:1: a file is one document, but a second one begins here"},
		{"model: a\nmodel: b\n", `a.yaml:2:1: mapping key "model" already defined at [1:1]`},
		{"tools:\n\t- name: x\n", "a.yaml:2:1: found character '\t' that cannot start any token: indent with spaces"},
		{"system: You are: helpful", "a.yaml:1:9: mapping value is not allowed in this context: if a text contains \": \", quote it"},
		{"limits:\n  rounds: 5\n wall_clock: 3m\n", "a.yaml:3:2: value is not allowed in this context: check the indentation"},
		{"tools:\n- name: *\n", "a.yaml:2:9: " + advice},
		{"tools: [{name: *all}]", "a.yaml:1:16: " + advice},
		{"limits: &l {rounds: 2}\nsession_limits: *l\n", "a.yaml:1:9: " + advice},
		{"model: !a demo\n", "a.yaml:1:8: " + advice},
		{"limits: {<<: {rounds: 2}}\n", "a.yaml:1:10: unknown field \"<<\""},
		{"\xff\xfem\x00", "a.yaml:1:"},
		{"model: demo\nsystem: \xff", "a.yaml:2:1: not UTF-8 text"},
	} {
		_, err := agentfile.Parse("a.yaml", []byte(tt.text), files())
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("Parse(%.60q) = %v, want %q", tt.text, err, tt.want)
		}
	}
}

func TestAFileIsTheSameOnEverySystem(t *testing.T) {
	t.Parallel()
	text := "model: demo\nsystem: |\n  One.\n  Two.\n"
	want, err := agentfile.Parse("a.yaml", []byte(text), nil)
	if err != nil {
		t.Fatal(err)
	}
	got, err := agentfile.Parse("a.yaml", []byte("\xef\xbb\xbf"+strings.ReplaceAll(text, "\n", "\r\n")), nil)
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("with Windows' line ends and a byte order mark: %v (-want +got):\n%s", err, diff)
	}
}

func TestAnUnknownKeySuggestsTheNearestOne(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"maxParallel: x":         `a.yaml:1:1: unknown field "maxParallel": did you mean max_parallel?`,
		"Tools: x":               "did you mean tools?",
		"approvals: {after: 3s}": `a.yaml:1:13: unknown field "after": use ask_lost or ttl`,
	} {
		_, err := agentfile.Parse("a.yaml", []byte(text), nil)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Parse(%q) = %v, want %q", text, err, want)
		}
	}
}

func TestReferencesAreCheckedAgainstTheProgram(t *testing.T) {
	t.Parallel()
	known := agentfile.Known{
		Models: func(name string) error {
			if name != "demo" {
				return errors.New("there is no " + name)
			}
			return nil
		},
		Tools: func(pattern string) error {
			if pattern == "fs_raed" {
				return errors.New("no such tool")
			}
			return nil
		},
		SameFolder: true,
	}
	dir := t.TempDir()
	for name, text := range map[string]string{
		"tester.yaml": "model: demo\n", "broken.yaml": "engine: x\n",
		"lead.yaml": `model: nope
fallback: [demo, nix]
agents: [tester, testr, broken, absent]
mcp: {docs: {command: [d]}}
tools:
  - name: fs_raed
  - name: agent_tester
  - name: agent_other
  - name: mcp_docs_read
  - name: mcp_dcos_*
  - name: mcp_other_*
compaction: {items: 9, steps: [{summarise: {model: dmeo}}]}
`,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want := `lead.yaml:1:8: model: there is no nope
lead.yaml:2:18: fallback[1]: there is no nix
lead.yaml:3:18: agents[1]: no file in DIR defines an agent "testr": did you mean tester?
lead.yaml:3:25: agents[2]: the file of agent broken has problems, too
lead.yaml:3:33: agents[3]: no file in DIR defines an agent "absent": put absent.yaml there
lead.yaml:6:11: tools[0].name: no such tool
lead.yaml:8:11: tools[2].name: "agent_other": the agent does not delegate to other: name it under agents
lead.yaml:10:11: tools[4].name: "mcp_dcos_*": no server under mcp is called dcos: did you mean docs?
lead.yaml:12:52: compaction.steps[0].summarise.model: there is no dmeo`
	_, err := known.Load(filepath.Join(dir, "lead.yaml"))
	got := strings.ReplaceAll(strings.ReplaceAll(fmt.Sprint(err), dir+"/", ""), dir, "DIR")
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("problems (-want +got):\n%s", diff)
	}
}

// A definition that a later release refuses must not stop a session whose journal has it.
func TestARecordedDefinitionIsNotCheckedAgain(t *testing.T) {
	t.Parallel()
	for _, data := range []string{
		`{"name":"a","context":{"skills":["../x"]}}`,
		`{"name":"a","permissions":{"kinds":{"deny":["filesystem.*"]}}}`,
		`{"name":"a","tools":[{"name":"agent_other"}]}`,
	} {
		c := events.Config{Agent: &events.AgentRef{Name: "a", Data: []byte(data)}}
		if d, err := agentfile.Recorded(c); err != nil || d == nil {
			t.Errorf("Recorded(%s) = %v, %v", data, d, err)
		}
		if _, err := agentfile.Parse("a", []byte(data), nil); err == nil {
			t.Errorf("Parse(%s) accepts it", data)
		}
	}
}

func TestLargeFilesAndDefinitionsAreRefused(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "a.yaml")
	for want, prompt := range map[string]string{
		"a definition of":           strings.Repeat("x", agentfile.MaxData),
		"bytes, more than":          strings.Repeat("x", 300<<10),
		"name a file in the folder": "",
	} {
		name := "prompt.md"
		if prompt == "" {
			name = "../prompt.md"
		}
		for path, text := range map[string]string{file: "system_file: " + name, filepath.Join(dir, "prompt.md"): prompt} {
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := (agentfile.Known{Held: true}).Load(file); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Load = %v, want %q", err, want)
		}
	}
}
