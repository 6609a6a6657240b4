//go:build unix

package docs

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/turnlog/turnlog/internal/testing/clitest"
)

const (
	interrupt = syscall.SIGINT
	terminate = syscall.SIGTERM
)

// ending is a command and how it ends.
type ending struct {
	code    int
	text    string
	says    string // on stderr
	ready   string // what it prints before it gets the signals; "" if it reads stdin first
	signals []syscall.Signal
}

// endings has the cases of the table in docs/operations.md. "s-…" are sessions of a deployment,
// which setup makes.
var endings = []ending{
	{code: 0, text: `env -u NATS_URL turnlog run --model scripted:hello.yaml hi`},
	{code: 0, text: `env -u NATS_URL turnlog task --model scripted:hello.yaml --gate true hi`},
	{code: 0, text: `turnlog wait s-done`},
	{code: 0, text: `observer verify s-done`},
	{code: 0, text: `turnlog server --listen 127.0.0.1:0 --store one`, ready: `(?m)^nats://`, signals: []syscall.Signal{interrupt}},
	{code: 0, text: `turnlog server --listen 127.0.0.1:0 --store two`, ready: `(?m)^nats://`, signals: []syscall.Signal{terminate}},
	{code: 0, text: `turnlog dev --listen 127.0.0.1:0 --store three`, ready: `is up at`, signals: []syscall.Signal{interrupt}},
	{code: 0, text: `driver-node`, ready: `node started`, signals: []syscall.Signal{interrupt}},
	{code: 0, text: `tool-worker --queue other`, ready: `worker started`, signals: []syscall.Signal{terminate}},
	{code: 0, text: `observer tail --from 1`, ready: `s-done`, signals: []syscall.Signal{interrupt}},

	{code: 1, text: `env -u NATS_URL turnlog run --model scripted:short.yaml hi`, says: "exhausted"},
	{code: 1, text: `env -u NATS_URL turnlog task --model scripted:hello.yaml --gate false --max-retries 0 hi`, says: "verif"},
	{code: 1, text: `env -u NATS_URL turnlog task --model scripted:rounds.yaml --max-rounds 2 hi`, says: "max turns"},
	{code: 1, text: `turnlog wait s-none`, says: "no such session"},
	{code: 1, text: `turnlog sessions show s-none`, says: "no such session"},
	{code: 1, text: `turnlog wait s-done --server 127.0.0.1:1`, says: "no server answers"},
	{code: 1, text: `turnlog doctor --namespace other`},
	{code: 1, text: `observer verify s-none`, says: "s-none"},
	{code: 1, text: `observer export s-done | sed 3d > cut.jsonl; observer verify --file cut.jsonl`, says: "cut.jsonl"},

	{code: 2, text: `turnlog run --wrong hi`, says: "--wrong"},
	{code: 2, text: `turnlog wrong`, says: "wrong"},
	{code: 2, text: `turnlog wait`, says: "SESSION"},
	{code: 2, text: `turnlog run --model wrong hi`, says: "scripted"},
	{code: 2, text: `turnlog run --model scripted:none.yaml hi`, says: "none.yaml"},
	{code: 2, text: `turnlog run --agent none.yaml hi`, says: "none.yaml"},
	{code: 2, text: `turnlog run --file none.txt hi`, says: "none.txt"},
	{code: 2, text: `turnlog run --timeout soon hi`, says: "--timeout"},
	{code: 2, text: `turnlog run --limit requests=0 hi`, says: "at least 1"},
	{code: 2, text: `turnlog agents check none.yaml`, says: "none.yaml"},
	{code: 2, text: `turnlog agents publish none.yaml`, says: "none.yaml"},
	{code: 2, text: `turnlog schedule add nightly --cron often hi`, says: "cron"},
	{code: 2, text: `turnlog doctor --profile best`, says: "dev, standard, audit"},
	{code: 2, text: `driver-node --policy none.yaml`, says: "none.yaml"},
	{code: 2, text: `driver-node --capacity many`, says: "--capacity"},
	{code: 2, text: `tool-worker --tools wrong`, says: "fs"},
	{code: 2, text: `tool-worker --tool-manifest none.yaml`, says: "none.yaml"},
	{code: 2, text: `tool-worker --root none`, says: "none"},
	{code: 2, text: `observer verify --file none.jsonl`, says: "none.jsonl"},
	{code: 2, text: `observer verify --anchor none.jsonl`, says: "none.jsonl"},
	{code: 2, text: `observer events`, says: "SESSION"},

	{code: 3, text: `env -u NATS_URL turnlog run --model scripted:rounds.yaml --max-rounds 2 hi`, says: "max turns"},
	{code: 3, text: `env -u NATS_URL turnlog run --model scripted:rounds.yaml --limit requests=1 hi`, says: "limit"},
	{code: 3, text: `turnlog wait s-limit`, says: "max turns"},

	{code: 4, text: `env -u NATS_URL turnlog run --model scripted:endless.yaml -o jsonl hi`, ready: `model_call_started`, signals: []syscall.Signal{interrupt}, says: "cancelled"},
	{code: 4, text: `turnlog run --model scripted:endless.yaml -o jsonl hi`, ready: `model_call_started`, signals: []syscall.Signal{terminate}, says: "cancelled"},
	{code: 4, text: `turnlog task --model scripted:endless.yaml -o jsonl hi`, ready: `model_call_started`, signals: []syscall.Signal{interrupt}, says: "cancelled"},
	{code: 4, text: `turnlog run --model scripted:endless.yaml --timeout 50ms hi`, says: "it reached its time limit"},
	{code: 4, text: `turnlog send s-late --wait --on-busy interrupt --timeout 50ms hi`},
	{code: 4, text: `turnlog wait s-open --timeout 50ms`},
	{code: 4, text: `turnlog wait s-open -o jsonl`, ready: `"kind":`, signals: []syscall.Signal{interrupt}},
	{code: 4, text: `turnlog wait s-cancelled`, says: "cancelled"},

	{code: 5, text: `env -u NATS_URL turnlog run --model scripted:asks.yaml --tools fs,shell hi`, says: "needs approval"},
	{code: 5, text: `turnlog task --model scripted:asks.yaml hi`, says: "needs approval"},
	{code: 5, text: `turnlog wait s-asks`, says: "needs approval"},

	{code: 6, text: `observer verify s-done --require anchored`, says: "the level is chain, not anchored"},
	{code: 6, text: `observer heads s-open > other.jsonl; observer verify s-done --anchor other.jsonl`, says: "no anchor or proof has one of its heads"},
	{code: 7, text: `observer verify s-gone --anchor heads.jsonl`, says: "the tombstone covers it"},
	{code: 8, text: `observer verify s-gone`, says: "was deleted"},

	{code: 130, text: `turnlog send s-done -`, signals: []syscall.Signal{interrupt}, says: "interrupted"},
	{code: 143, text: `turnlog run -`, signals: []syscall.Signal{terminate}, says: "stopped by a signal"},
	{code: 130, text: `observer verify --file -`, signals: []syscall.Signal{interrupt}, says: "interrupted"},
}

// unanswered are programs that wait some seconds for a server, of the same table.
var unanswered = []ending{
	{code: 1, text: `driver-node --server 127.0.0.1:1`, says: "no server answers"},
	{code: 1, text: `tool-worker --server 127.0.0.1:1`, says: "no server answers"},
}

// setup makes the deployment of the cases, its sessions and the models' scripts.
var setup = []string{
	`turnlog provision`,
	`driver-node &`,
	`tool-worker --tools fs,shell &`,
	`until turnlog tools ls | grep -q shell_exec; do :; done`,
	`printf 'replies:\n  - text: Hello.\n' > hello.yaml`,
	`printf 'replies:\n  - calls: [{name: fs_list_directory, input: {}}]\n' > short.yaml`,
	`printf 'replies:\n  - text: never\n    delay: 1h\n' > endless.yaml`,
	`printf 'replies:\n  - calls: [{name: fs_list_directory, input: {}}]\n    repeat: true\n' > rounds.yaml`,
	`printf 'replies:\n  - calls: [{name: shell_exec, input: {script: "true"}}]\n' > asks.yaml`,
	`turnlog run --session s-done --model scripted:hello.yaml hi`,
	`turnlog run --session s-gone --model scripted:hello.yaml hi`,
	`observer heads s-gone > heads.jsonl`,
	`turnlog run --session s-limit --model scripted:rounds.yaml --max-rounds 2 hi || true`,
	`turnlog run --session s-cancelled --model scripted:endless.yaml --timeout 10ms hi || true`,
	`turnlog run --session s-late --model scripted:endless.yaml --timeout 10ms hi || true`,
	`turnlog run --session s-asks --model scripted:asks.yaml hi || true`,
	`turnlog run --session s-open --model scripted:endless.yaml --timeout 10ms hi || true; turnlog send s-open again`,
	`observer tail s-gone --from 1 -o jsonl &`, // until it is parked
	`turnlog sessions rm s-gone`,
}

func TestCommandsExitAsTheTableSays(t *testing.T) {
	t.Parallel()
	dir, err := build()
	if err != nil {
		t.Fatal(err)
	}
	table, err := os.ReadFile("../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	r := &reader{page: page{servers: 1}, name: "exit codes", used: make(map[string]bool)}
	r.prepare(t, dir, "")
	for _, c := range setup {
		r.run(t, command{text: c})
	}
	seen := make(map[int]bool)
	for _, e := range endings {
		seen[e.code] = true
	}
	for _, row := range regexp.MustCompile(`(?m)^\| ([\d, ]+) \|`).FindAllStringSubmatch(string(table), -1) {
		for code := range strings.SplitSeq(row[1], ",") {
			if n, err := strconv.Atoi(strings.TrimSpace(code)); err != nil || !seen[n] {
				t.Errorf("no case has the code %s of the table", code)
			}
		}
	}
	t.Run("cases", func(t *testing.T) { r.allEnd(t, endings) })
	r.stop(t)
}

func TestProgramsWaitForAServer(t *testing.T) {
	t.Parallel()
	dir, err := build()
	if err != nil {
		t.Fatal(err)
	}
	r := &reader{name: "exit codes", used: make(map[string]bool)}
	r.prepare(t, dir, "")
	r.allEnd(t, unanswered)
}

// allEnd runs commands at the same time.
func (r *reader) allEnd(t *testing.T, all []ending) {
	t.Helper()
	for _, e := range all {
		t.Run(e.text, func(t *testing.T) {
			t.Parallel()
			r.ends(t, e)
		})
	}
}

// ends runs a command to its end.
func (r *reader) ends(t *testing.T, e ending) {
	t.Helper()
	text := e.text
	if len(e.signals) > 0 {
		text = "exec " + text
	}
	out, problems, both := clitest.NewScreen(), clitest.NewScreen(), clitest.NewScreen()
	cmd := r.shell(t, text)
	cmd.Stdout, cmd.Stderr = io.MultiWriter(out, both), io.MultiWriter(problems, both)
	in, err := cmd.StdinPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	switch {
	case len(e.signals) == 0:
	case e.ready == "":
		// A pipe holds 64 KiB: when this is written, the program reads.
		if _, err := io.WriteString(in, strings.Repeat(" ", 256<<10)); err != nil {
			t.Error(err)
		}
	default:
		both.AwaitMatch(t, e.ready)
	}
	for _, s := range e.signals {
		if err := cmd.Process.Signal(s); err != nil {
			t.Error(err)
		}
	}
	code := 0
	if exit, ok := errors.AsType[*exec.ExitError](cmd.Wait()); ok {
		code = exit.ExitCode()
	}
	if code != e.code || !strings.Contains(problems.String(), e.says) {
		t.Errorf("%s exits with %d, want %d and %q:\n%s%s", e.text, code, e.code, e.says, out, problems)
	}
	if code == 2 && (out.String() != "" || strings.Count(problems.String(), "\n") != 1) {
		t.Errorf("%s prints more than one line about its usage:\n%s%s", e.text, out, problems)
	}
}
