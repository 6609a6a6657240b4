package mcp

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/turnlog/turnlog/content"
)

func TestProgramSeesOnlyItsEnvironment(t *testing.T) {
	t.Setenv("TURNLOG_TEST_OF_THE_HOST", "not for servers")
	s := programServer(t, "x", "new")
	s.Env["KEY"], s.Env["PLAIN"] = "env:KEY_OF_THE_HOST", "as it is"
	t.Setenv("KEY_OF_THE_HOST", "s3cret")
	m := open(t, Config{Servers: []Server{s}})
	ready(t, m)
	got := invoke(t, named(t, m, "mcp_x_environment"), `{}`).Result.Text()
	want := []string{"HOME=" + os.Getenv("HOME"), "KEY=s3cret", "PATH=" + os.Getenv("PATH"), "PLAIN=as it is", asProgram + "=new"}
	if got != strings.Join(want, "\n") {
		t.Errorf("environment:\n%s\nwant:\n%s", got, strings.Join(want, "\n"))
	}
}

func TestProgramThatDiesIsRestarted(t *testing.T) {
	t.Parallel()
	m := open(t, Config{Servers: []Server{programServer(t, "x", "new")}, Backoff: Backoff{First: time.Hour, Most: time.Hour}})
	ready(t, m)
	die := named(t, m, "mcp_x_die")
	wantText(t, invoke(t, die, `{}`), content.StatusError, CodeUnavailable, "server x is not available")
	eventually(t, "it is unavailable", func() bool { return m.Status()[0].State == Unavailable })
	if err := m.Status()[0].Err; err == nil || err.Error() != "the program ended (exit status 7): out of paper" {
		t.Errorf("error = %v", err)
	}
	if slices.Contains(names(t, m), "mcp_x_echo") {
		t.Error("its tools are on offer")
	}
	if _, err := m.links[0].connected(within(t), nil, false); err != nil {
		t.Fatal(err)
	}
	wantText(t, invoke(t, named(t, m, "mcp_x_echo"), `{"text":"a"}`), content.StatusOK, "", "a")
}

func TestLinesThatAreNotMessagesAreSkipped(t *testing.T) {
	t.Parallel()
	core, logs := observer.New(zap.WarnLevel)
	m := open(t, Config{Servers: []Server{programServer(t, "x", "banner")}, Logger: zap.New(core)})
	ready(t, m)
	wantText(t, invoke(t, named(t, m, "mcp_x_echo"), `{"text":"a"}`), content.StatusOK, "", "a")
	if said := logs.FilterMessage("MCP server wrote a line that is not a message").All(); len(said) != 1 || said[0].ContextMap()["line"] != "Welcome!" {
		t.Errorf("logged: %v", logs.All())
	}
}

func TestCloseEndsAllProcesses(t *testing.T) {
	t.Parallel()
	m := open(t, Config{Servers: []Server{programServer(t, "x", "new"), withTimeout(programServer(t, "y", "stubborn"), 50*time.Millisecond)}})
	m.Settle(within(t))
	child := strings.TrimSpace(invoke(t, named(t, m, "mcp_x_spawn"), `{}`).Result.Text())
	if !alive(child) {
		t.Fatalf("child %q does not run", child)
	}
	m.Close()
	if alive(child) {
		t.Errorf("child %s still runs", child)
	}
}

// alive reports whether a process runs.
func alive(pid string) bool {
	raw, err := os.ReadFile("/proc/" + pid + "/stat")
	if err != nil {
		return false
	}
	f := strings.Fields(string(raw[strings.LastIndexByte(string(raw), ')')+1:]))
	return f[0] != "Z" && f[0] != "X"
}

func TestSecretsOfAProgramAreNotShown(t *testing.T) {
	t.Parallel()
	core, logs := observer.New(zap.DebugLevel)
	s := programServer(t, "x", "broken")
	s.Env["API_KEY"] = "env:KEY"
	m := open(t, Config{Servers: []Server{s}, Logger: zap.New(core), Getenv: func(name string) string {
		if name == "KEY" {
			return "s3cret"
		}
		return os.Getenv(name)
	}})
	st := m.Settle(within(t))[0]
	if st.Err == nil || st.Err.Error() != "the program ended (exit status 3): no key: [secret]" {
		t.Errorf("error = %v", st.Err)
	}
	for _, e := range logs.All() {
		if text := fmt.Sprintf("%s %v", e.Message, e.ContextMap()); strings.Contains(text, "s3cret") {
			t.Errorf("logged: %s", text)
		}
	}
}

func TestProgramWithoutItsSecretIsNotStarted(t *testing.T) {
	t.Parallel()
	s := programServer(t, "x", "new")
	s.Env["API_KEY"] = "env:NO_SUCH_KEY_ANYWHERE"
	m := open(t, Config{Servers: []Server{s}})
	if st := m.Settle(within(t))[0]; st.Err == nil || st.Err.Error() != "environment variable API_KEY: environment variable NO_SUCH_KEY_ANYWHERE is not set" {
		t.Errorf("error = %v", st.Err)
	}
}

func TestTimeoutReportsTheProgramsOutput(t *testing.T) {
	t.Parallel()
	core, logs := observer.New(zap.DebugLevel)
	l := newLink(Config{Logger: zap.New(core), Getenv: os.Getenv}, programServer(t, "x", "slow").withDefaults())
	ctx, timeOut := context.WithCancelCause(within(t))
	go func() {
		eventually(t, "the output", func() bool { return logs.FilterMessage("MCP server output").Len() > 0 })
		timeOut(context.DeadlineExceeded)
	}()
	_, err := l.connect(ctx)
	if want := "connect: no answer within 2m0s; it printed: still installing"; err == nil || err.Error() != want {
		t.Errorf("connect = %v, want %q", err, want)
	}
}
