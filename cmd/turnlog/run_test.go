package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/turnlog/turnlog/internal/cli"
)

func TestRunPrintsTheReply(t *testing.T) {
	t.Parallel()
	p := expect(t, cli.CodeOK, "run", "--model", scripted(t, oneReply), "hi")
	if p.out.String() != "Hello.\n" || p.err.String() != "" {
		t.Errorf("out = %q, err = %q", p.out, p.err)
	}
}

func TestRunShowsToolCallsAsTheyStartAndEnd(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	if err := os.WriteFile(filepath.Join(root, "a.txt"), []byte("some words\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	model := scripted(t, `
replies:
  - text: Let me look.
    calls:
      - {name: fs_read_file, input: {path: a.txt}}
      - {name: fs_read_file, input: {path: ../b.txt}}
  - text: "{{if (index .Results 1).IsError}}One of two.{{end}}"
`)
	p := expect(t, cli.CodeOK, "run", "--root", root, "--model", model, "look")
	if want := "Let me look.\nOne of two.\n"; p.out.String() != want {
		t.Errorf("out = %q, want %q", p.out, want)
	}
	lines := strings.Split(p.err.String(), "\n")
	for i, want := range []string{
		`→ fs_read_file {"path":"a.txt"}`, "✓ fs_read_file ", `→ fs_read_file {"path":"../b.txt"}`, "✗ fs_read_file error: ",
	} {
		if i >= len(lines) || !strings.HasPrefix(lines[i], want) {
			t.Errorf("line %d is not %q…:\n%s", i+1, want, p.err)
		}
	}
}

func TestRunReportsTheTurnAsOneObject(t *testing.T) {
	t.Parallel()
	model := scripted(t, `
replies:
  - calls: [{name: fs_list_directory, input: {path: .}}]
    usage: {input: 10, output: 3}
  - text: Done.
    usage: {input: 20, output: 4}
`)
	p := expect(t, cli.CodeOK, "run", "--session", "s-1", "--root", t.TempDir(), "--model", model, "-o", "json", "list")
	var got map[string]any
	if err := json.Unmarshal([]byte(p.out.String()), &got); err != nil {
		t.Fatalf("%v in %s", err, p.out)
	}
	calls, _ := got["tool_calls"].([]any)
	if len(calls) == 1 {
		call, _ := calls[0].(map[string]any)
		if _, ok := call["duration_ms"].(float64); !ok {
			t.Errorf("duration_ms = %v", call["duration_ms"])
		}
		delete(call, "duration_ms")
	}
	head, _ := got["journal"].(map[string]any)
	if hash, _ := head["hash"].(string); len(hash) != 64 {
		t.Errorf("hash = %q", hash)
	}
	delete(head, "hash")
	want := map[string]any{
		"approvals": []any{},
		"session":   "s-1", "turn": "turn-1", "finish_reason": "completed", "text": "Done.", "rounds": 2.0,
		"usage":      map[string]any{"input_tokens": 30.0, "output_tokens": 7.0},
		"tool_calls": []any{map[string]any{"id": "call_1_1", "name": "fs_list_directory", "status": "ok", "route": "foreground", "attempts": 1.0}},
		"journal":    map[string]any{"seq": 5.0},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("report (-want +got):\n%s", diff)
	}
	if strings.Count(p.out.String(), "\n") != 1 || p.err.String() != "" {
		t.Errorf("out = %q, err = %q", p.out, p.err)
	}
}

func TestRunPrintsEventsAsLines(t *testing.T) {
	t.Parallel()
	p := expect(t, cli.CodeOK, "run", "--model", scripted(t, oneReply), "-o", "jsonl", "hi")
	var kinds []string
	var result *turnReport
	for line := range strings.Lines(p.out.String()) {
		var l struct {
			Seq    uint64
			At     string
			Event  struct{ Kind string }
			Result *turnReport
		}
		if err := json.Unmarshal([]byte(line), &l); err != nil {
			t.Fatalf("%v in %s", err, line)
		}
		if l.Result != nil {
			result = l.Result
			continue
		}
		if l.Seq == 0 || l.At == "" || result != nil {
			t.Errorf("line %s", line)
		}
		kinds = append(kinds, l.Event.Kind)
	}
	want := []string{
		"driver_claimed", "run_started", "input_queued", "input_accepted", "turn_started", "round_started",
		"model_call_started", "reply_recorded", "usage_updated", "turn_finished",
	}
	if diff := cmp.Diff(want, kinds); diff != "" {
		t.Errorf("kinds (-want +got):\n%s", diff)
	}
	if result == nil || result.Text != "Hello." {
		t.Errorf("result = %+v", result)
	}
}

func TestRunReadsThePromptFromStdin(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{nil, {"-"}} {
		args = append([]string{"run", "--model", scripted(t, echo)}, args...)
		p := prepare(t, strings.NewReader("from a pipe\n"), nil).start(t, args...)
		if code := p.end(t); code != cli.CodeOK || p.out.String() != "You said from a pipe.\n" {
			t.Errorf("%q: code %d, out %q, err %q", args, code, p.out, p.err)
		}
	}
}

func TestRunTakesAPromptOfFiveMegabytes(t *testing.T) {
	t.Parallel()
	p := prepare(t, strings.NewReader(strings.Repeat("word ", 1<<20)), nil)
	p.start(t, "run", "--model", scripted(t, oneReply))
	if code := p.end(t); code != cli.CodeOK || p.out.String() != "Hello.\n" {
		t.Errorf("code %d, out %q, err %q", code, p.out, p.err)
	}
}

func TestRunExitsWithWhatBecameOfTheTurn(t *testing.T) {
	t.Parallel()
	calls := "replies:\n  - calls: [{name: fs_list_directory, input: {path: .}}]\n    repeat: true\n"
	for _, tc := range []struct {
		name   string
		script string
		args   []string
		code   int
		reason string
		say    string
	}{
		{"exhausted", "replies:\n  - calls: [{name: nothing, input: {}}]\n", nil, cli.CodeFailed, "error", "exhausted"},
		{"rounds", calls, []string{"--max-rounds", "2"}, cli.CodeLimit, "limit", "max turns reached (2)"},
		{"tokens", "replies:\n  - {text: cut, finish_reason: max_tokens}\n", nil, cli.CodeLimit, "max_tokens", "token limit"},
		{"blocked", "replies:\n  - {text: no, finish_reason: blocked}\n", nil, cli.CodeFailed, "blocked", "blocked"},
		{"timeout", endless, []string{"--timeout", "50ms"}, cli.CodeCancelled, "cancelled", "its time was over"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			args := append([]string{"run", "--model", scripted(t, tc.script), "-o", "json", "--root", t.TempDir()}, tc.args...)
			p := expect(t, tc.code, append(args, "go")...)
			var r turnReport
			if err := json.Unmarshal([]byte(p.out.String()), &r); err != nil || string(r.FinishReason) != tc.reason {
				t.Errorf("finish_reason = %q (%v), want %q", r.FinishReason, err, tc.reason)
			}
			if say := p.err.String(); !strings.Contains(say, tc.say) || strings.Count(say, "\n") != 1 {
				t.Errorf("err = %q, want one line with %q", say, tc.say)
			}
		})
	}
}

func TestRunTriesAgainAndSaysSo(t *testing.T) {
	t.Parallel()
	model := scripted(t, "replies:\n  - text: At last.\n    error: {class: overloaded, message: too busy, attempts: 1, retry_after: 1ms}\n")
	p := expect(t, cli.CodeOK, "run", "--model", model, "hi")
	if p.out.String() != "At last.\n" || !strings.Contains(p.err.String(), "model call failed (overloaded): too busy; trying again") {
		t.Errorf("out = %q, err = %q", p.out, p.err)
	}
}

func TestAnInterruptCancelsTheTurn(t *testing.T) {
	t.Parallel()
	p := prepare(t, strings.NewReader(""), nil).start(t, "run", "--model", scripted(t, endless), "-o", "jsonl", "hi")
	p.out.Await(t, "model_call_started")
	p.signals <- os.Interrupt
	if code := p.end(t); code != cli.CodeCancelled {
		t.Errorf("code = %d", code)
	}
	if !strings.Contains(p.out.String(), `"finish_reason":"cancelled"`) || !strings.Contains(p.err.String(), "turnlog: cancelled: interrupted") {
		t.Errorf("out = %s\nerr = %s", p.out, p.err)
	}
}

func TestTheSecondInterruptLeaves(t *testing.T) {
	t.Parallel()
	model := scripted(t, "replies:\n  - calls: [{name: shell_exec, input: {argv: [sh, -c, 'trap \"\" TERM; echo up; sleep 120']}}]\n")
	p := prepare(t, strings.NewReader(""), nil).start(t, "run", "--yes", "--tools", "shell", "--root", t.TempDir(), "--model", model, "hi")
	p.err.Await(t, "→ shell_exec")
	p.signals <- os.Interrupt
	p.signals <- os.Interrupt
	if code := p.end(t); code != cli.CodeCancelled {
		t.Errorf("code = %d, err = %s", code, p.err)
	}
}

func TestBadInputIsRefusedWithOneLine(t *testing.T) {
	t.Parallel()
	model := scripted(t, oneReply)
	file := strings.TrimPrefix(model, "scripted:")
	for _, tc := range []struct {
		args []string
		code int
		say  string
	}{
		{[]string{"runn"}, cli.CodeUsage, `unknown command "runn": did you mean "run"?`},
		{[]string{"sessions", "lst"}, cli.CodeUsage, `unknown command "lst": did you mean "ls"?`},
		{[]string{"run", "--nope", "hi"}, cli.CodeUsage, "unknown flag: --nope"},
		{[]string{"run", "-o", "xml", "hi"}, cli.CodeUsage, "choose one of text, json, jsonl"},
		{[]string{"run", "--model", "gpt", "hi"}, cli.CodeUsage, `unknown provider "gpt"`},
		{[]string{"run", "--model", "scripted:/no/such.yaml", "hi"}, cli.CodeUsage, "/no/such.yaml: no such file"},
		{[]string{"run", "--model", scripted(t, "replies:\n  - txt: x\n"), "hi"}, cli.CodeUsage, `:2:5: reply 1 has no field "txt"`},
		{[]string{"run", "--tools", "fs,net", "hi"}, cli.CodeUsage, `there is no set "net"`},
		{[]string{"run", "--root", "/no/such", "--model", model, "hi"}, cli.CodeUsage, "root /no/such: no such directory"},
		{[]string{"run", "--root", file, "--model", model, "hi"}, cli.CodeUsage, "not a directory"},
		{[]string{"run", "--session", "a b", "hi"}, cli.CodeUsage, `session "a b"`},
		{[]string{"run", "--max-rounds", "-1", "hi"}, cli.CodeUsage, "--max-rounds -1"},
		{[]string{"run", "--timeout", "-1s", "hi"}, cli.CodeUsage, "--timeout -1s"},
		{[]string{"run", "--namespace", "a.b", "--model", model, "hi"}, cli.CodeUsage, `namespace "a.b"`},
		{[]string{"run", " "}, cli.CodeUsage, "the prompt is empty"},
		{[]string{"run"}, cli.CodeUsage, "the prompt is empty"},
		{[]string{"run", "\xff\xfe"}, cli.CodeUsage, "not valid UTF-8"},
		{[]string{"run", "--server", "127.0.0.1:1", "--model", model, "hi"}, cli.CodeFailed, "connect to NATS at nats://127.0.0.1:1: no server answers"},
		{[]string{"run", "--server", "127.0.0.1:1", "--root", ".", "--model", model, "hi"}, cli.CodeUsage, "--root is for the worker of this process"},
		{[]string{"run", "--context", "nope", "--model", model, "hi"}, cli.CodeFailed, `context "nope" is unknown`},
		{[]string{"send", "s"}, cli.CodeUsage, "argument TEXT is missing"},
		{[]string{"send", "s", "--timeout", "1s", "hi"}, cli.CodeUsage, "--timeout is for --wait"},
		{[]string{"cancel"}, cli.CodeUsage, "argument SESSION is missing"},
		{[]string{"run", "--server", "::::", "--model", model, "hi"}, cli.CodeUsage, `server "::::" is not an address`},
		{[]string{"wait", "s", "--server", "localhost:99999"}, cli.CodeUsage, `server "localhost:99999" is not an address`},
		{[]string{"wait", "s", "--server", "[::1]:1"}, cli.CodeFailed, "no server answers"},
		{[]string{"send", "s", "--wait", "--timeout", "-1s", "hi"}, cli.CodeUsage, "--timeout -1s"},
		{[]string{"approvals", "ls", "s", "--all"}, cli.CodeUsage, "--all and a session: give one"},
		{[]string{"dev", "--listen", "nonsense"}, cli.CodeUsage, `listen address "nonsense" is not host:port`},
		{[]string{"server", "--sync"}, cli.CodeUsage, "give a store directory too"},
		{[]string{"server", "--listen", "nonsense"}, cli.CodeUsage, `listen address "nonsense" is not host:port`},
		{[]string{"server", "--listen", "127.0.0.1:0", "--namespace", "a.b"}, cli.CodeUsage, `namespace "a.b"`},
		{[]string{"dev", "--tools", ""}, cli.CodeUsage, "--tools: name at least one of fs, shell"},
	} {
		t.Run(strings.Join(tc.args, " "), func(t *testing.T) {
			t.Parallel()
			p := expect(t, tc.code, append(tc.args, quiet(tc.args[0])...)...)
			say := p.err.String()
			if !strings.HasPrefix(say, "turnlog: ") || !strings.Contains(say, tc.say) || strings.Count(say, "\n") != 1 {
				t.Errorf("err = %q, want one line with %q", say, tc.say)
			}
			if p.out.String() != "" {
				t.Errorf("out = %q", p.out)
			}
		})
	}
}

// quiet are the flags with which a command logs nothing but errors.
func quiet(command string) []string {
	if command == "server" || command == "dev" {
		return []string{"--log-level", "error"}
	}
	return nil
}

func TestOnlyWhatNamesAServerRedirects(t *testing.T) {
	t.Parallel()
	model := scripted(t, oneReply)
	p := prepare(t, nil, env{"NATS_URL": "nats://127.0.0.1:1"}).start(t, "run", "--model", model, "hi")
	if code := p.end(t); code != cli.CodeFailed || !strings.Contains(p.err.String(), "no server answers") {
		t.Errorf("NATS_URL: code %d, err %s", code, p.err)
	}
	config := t.TempDir()
	if err := os.MkdirAll(filepath.Join(config, "nats", "context"), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"context.txt": "away", "context/away.json": `{"url":"nats://127.0.0.1:1"}`} {
		if err := os.WriteFile(filepath.Join(config, "nats", name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	p = prepare(t, nil, env{"XDG_CONFIG_HOME": config}).start(t, "run", "--model", model, "hi")
	if code := p.end(t); code != cli.CodeOK {
		t.Errorf("selected context: code %d, err %s", code, p.err)
	}
	p = prepare(t, nil, env{"XDG_CONFIG_HOME": config, "NATS_CONTEXT": "away"}).start(t, "run", "--model", model, "hi")
	if code := p.end(t); code != cli.CodeFailed {
		t.Errorf("NATS_CONTEXT: code %d, err %s", code, p.err)
	}
}
