package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime/debug"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"

	"github.com/spf13/cobra"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// noEnv is an environment without variables.
func noEnv(string) string { return "" }

// program is a root command with what the tests need; run is what "work" does.
func program(run func(*cobra.Command) error) *cobra.Command {
	noop := func(*cobra.Command, []string) error { return nil }
	root := &cobra.Command{Use: "prog", Short: "A program."}
	work := &cobra.Command{
		Use: "work NAME [HOW]", Short: "Works.",
		RunE: func(cmd *cobra.Command, _ []string) error { return run(cmd) },
	}
	OutputFlag(work, "text", "json")
	work.Flags().Int("times", 1, "how often")
	work.Flags().Uint64("seed", 1, "what happens")
	work.Flags().Duration("for", 0, "how long")
	work.Flags().Bool("really", false, "whether")
	all := &cobra.Command{Use: "all FILE...", Short: "Takes all.", RunE: noop}
	group := &cobra.Command{Use: "group", Short: "Has commands."}
	group.AddCommand(&cobra.Command{Use: "list", RunE: noop})
	both := &cobra.Command{Use: "both", Short: "Runs, and has commands.", RunE: noop}
	both.AddCommand(&cobra.Command{Use: "list", RunE: noop})
	from := &cobra.Command{Use: "from [PLACE] NAME... --to PLACE", Short: "Has flags in its usage.", RunE: noop}
	root.AddCommand(work, all, group, both, from)
	return root
}

// execute runs the program and returns what it prints.
func execute(ctx context.Context, root *cobra.Command, args ...string) (code int, stdout, stderr string) {
	var out, err bytes.Buffer
	root.SetArgs(args)
	root.SetOut(&out)
	root.SetErr(&err)
	code = Execute(ctx, root)
	return code, out.String(), err.String()
}

func TestWrongCommandLinesAreUsageErrors(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		"work":                                `prog: argument NAME is missing (see "prog work --help")`,
		"work a b c":                          `prog: unexpected argument "c" (see "prog work --help")`,
		"work a --bogus":                      `prog: unknown flag: --bogus (see "prog work --help")`,
		"work a --times x":                    `prog: --times "x": use a whole number (see "prog work --help")`,
		"work a --times 1e99":                 `prog: --times "1e99": use a whole number (see "prog work --help")`,
		"work a --times 99999999999999999999": `prog: --times "99999999999999999999": the number is too large (see "prog work --help")`,
		"work a --seed -1":                    `prog: --seed "-1": use a whole number, 0 or more (see "prog work --help")`,
		"work a --for 10":                     `prog: --for "10": use a time with its unit, such as 500ms, 30s or 2h30m (see "prog work --help")`,
		"work a --really=perhaps":             `prog: --really "perhaps": use true or false, or the flag alone (see "prog work --help")`,
		"work a --tims 1":                     `prog: unknown flag: --tims: did you mean --times? (see "prog work --help")`,
		"work a --out json":                   `prog: unknown flag: --out: did you mean --output? (see "prog work --help")`,
		"work a -o xml":                       `prog: --output "xml": choose one of text, json (see "prog work --help")`,
		"worrk":                               `prog: unknown command "worrk": did you mean "work"? (see "prog --help")`,
		"xyzzy":                               `prog: unknown command "xyzzy" (see "prog --help")`,
		"group liist":                         `prog: unknown command "liist": did you mean "list"? (see "prog group --help")`,
		"group list stray":                    `prog: unexpected argument "stray" (see "prog group list --help")`,
		"both liist":                          `prog: unknown command "liist": did you mean "list"? (see "prog both --help")`,
		"from":                                `prog: argument NAME is missing (see "prog from --help")`,
		"all":                                 `prog: argument FILE is missing (see "prog all --help")`,
		"--times":                             `prog: unknown flag: --times (see "prog --help")`,
		"work a --times=1 -q":                 `prog: unknown shorthand flag: 'q' in -q (see "prog work --help")`,
		"work a b --output=":                  `prog: --output "": choose one of text, json (see "prog work --help")`,
		"work -- a b -- extra":                `prog: unexpected argument "--" (see "prog work --help")`,
	} {
		root := program(func(*cobra.Command) error { t.Errorf("%q ran", line); return nil })
		code, stdout, stderr := execute(t.Context(), root, strings.Fields(line)...)
		if code != CodeUsage || stdout != "" || stderr != want+"\n" {
			t.Errorf("%q exits with %d, prints %q and %q, want %q", line, code, stdout, stderr, want)
		}
	}
}

func TestErrorsOfCommandsAreOneLine(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		err  error
		code int
		want string
	}{
		{nil, 0, ""},
		{errors.New("no such session"), 1, "prog: no such session\n"},
		{errors.New("settings differ\n  a: 1\n\n  b: \x1b[31m2"), 1, "prog: settings differ; a: 1; b: \\x1b[31m2\n"},
		{&ExitError{Code: CodeLimit, Err: errors.New("limit")}, 3, "prog: limit\n"},
		{fmt.Errorf("run: %w", &ExitError{Code: CodeApproval}), 5, ""},
		{Usage("--a and --b at once: give one"), 2, "prog: --a and --b at once: give one (see \"prog work --help\")\n"},
		{fmt.Errorf("connect: %w", &Interrupted{os.Interrupt}), 130, "prog: connect: interrupted\n"},
		{&Interrupted{syscall.SIGTERM}, 143, "prog: stopped by a signal: terminated\n"},
	} {
		root := program(func(*cobra.Command) error { return c.err })
		code, stdout, stderr := execute(t.Context(), root, "work", "x")
		if code != c.code || stdout != "" || stderr != c.want {
			t.Errorf("%v exits with %d and prints %q, want %d and %q", c.err, code, stderr, c.code, c.want)
		}
	}
}

func TestHelpAndVersionGoToStandardOutput(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		"":            "Usage:\n  prog [command]",
		"--help":      "Usage:\n  prog [command]",
		"group":       "prog group [command]",
		"work --help": "prog work NAME [HOW] [flags]",
		"--version":   "prog ",
	} {
		code, stdout, stderr := execute(t.Context(), program(nil), strings.Fields(line)...)
		if code != 0 || stderr != "" || !strings.Contains(stdout, want) {
			t.Errorf("%q exits with %d, prints %q and %q, want %q", line, code, stdout, stderr, want)
		}
	}
	if _, out, _ := execute(t.Context(), program(nil), "work", "--help"); !strings.Contains(out, "output format: text, json (default text)") {
		t.Errorf("the help does not list the formats:\n%s", out)
	}
}

func TestChoicesAreCompleted(t *testing.T) {
	t.Parallel()
	code, out, _ := execute(t.Context(), program(nil), "__complete", "work", "a", "--output", "")
	if code != 0 || !strings.HasPrefix(out, "text\njson\n") {
		t.Errorf("completion = %d %q", code, out)
	}
}

func TestFirstSignalEndsTheContextAndTheSecondTheProgram(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		signals := make(chan os.Signal)
		var exited []int
		ctx, end := Watch(t.Context(), signals, func(code int) { exited = append(exited, code) })
		signals <- os.Interrupt
		<-ctx.Done()
		if i, ok := errors.AsType[*Interrupted](context.Cause(ctx)); !ok || i.Signal != os.Interrupt {
			t.Errorf("cause = %v, want Interrupted", context.Cause(ctx))
		}
		synctest.Wait()
		if len(exited) > 0 {
			t.Fatal("the first signal ended the program")
		}
		signals <- syscall.SIGTERM
		synctest.Wait()
		if len(exited) != 1 || exited[0] != 143 {
			t.Errorf("exit codes = %v, want 143", exited)
		}
		end()
	})
}

func TestSignalsReachTheContext(t *testing.T) {
	ctx, stop := withSignals(t.Context(), func(int) { t.Error("exit") })
	defer stop()
	self, err := os.FindProcess(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	if err := self.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	<-ctx.Done()
	if got := context.Cause(ctx).Error(); got != "stopped by a signal: terminated" {
		t.Errorf("cause = %s", got)
	}
}

func TestLogFlags(t *testing.T) {
	t.Parallel()
	logged := func(args ...string) string {
		var out bytes.Buffer
		root := &cobra.Command{Use: "prog"}
		l := NewLog(root, zapcore.InfoLevel)
		root.AddCommand(&cobra.Command{Use: "go", RunE: func(*cobra.Command, []string) error {
			log := l.Logger(&out, noEnv)
			log.Debug("fine")
			log.Named("part").Info("happened", zap.String("what", "it"))
			return nil
		}})
		if code, _, stderr := execute(t.Context(), root, append([]string{"go"}, args...)...); code != 0 {
			return stderr
		}
		return out.String()
	}
	if got := logged(); !strings.Contains(got, "  INFO  part  happened  {\"what\": \"it\"}") || strings.Contains(got, "fine") {
		t.Errorf("console: %q", got)
	}
	if got := logged("--log-format", "json", "--log-level=debug"); !strings.Contains(got, `"level":"debug"`) ||
		!strings.Contains(got, `"logger":"part","msg":"happened","what":"it"`) {
		t.Errorf("json: %q", got)
	}
	if got := logged("--log-level", "warn"); got != "" {
		t.Errorf("warn: %q", got)
	}
	if got := logged("--log-level", "loud"); !strings.Contains(got, "choose one of debug, info, warn, error") {
		t.Errorf("unknown level: %q", got)
	}
}

// The last lines of a program say why it ended.
func TestTheLogIsExportedToItsEnd(t *testing.T) {
	got := make(chan []byte, 10)
	collector := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got <- body
	}))
	t.Cleanup(collector.Close)
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.URL)
	for exporter, want := range map[string]string{"otlp": "", "jaeger": "only otlp and none are supported", "": ""} {
		t.Setenv("OTEL_LOGS_EXPORTER", exporter)
		var l *Log
		root := program(func(cmd *cobra.Command) error {
			l.Logger(cmd.ErrOrStderr(), noEnv).Info("the last line")
			return errors.New("out of luck")
		})
		l = NewLog(root, zapcore.InfoLevel)
		code, _, errs := execute(t.Context(), root, "work", "a")
		if code != CodeFailed || !strings.Contains(errs, "the last line") || !strings.Contains(errs, want) {
			t.Errorf("%q: code %d, %s", exporter, code, errs)
		}
	}
	if body := <-got; !bytes.Contains(body, []byte("the last line")) || len(got) > 0 {
		t.Errorf("exported: %q, and %d more", body, len(got))
	}
}

func TestOnlyTerminalsHaveColors(t *testing.T) {
	t.Parallel()
	file, err := os.Create(t.TempDir() + "/out")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	if IsTerminal(&bytes.Buffer{}) || IsTerminal(file) || Colored(file, noEnv) {
		t.Error("a file is taken for a terminal")
	}
}

func TestProgramsCollectLessOftenThanGoDoes(t *testing.T) {
	for env, want := range map[string]int{"": 300, "77": 77} { // Go sets the latter before main
		t.Setenv("GOGC", env)
		before := debug.SetGCPercent(77)
		got := 0
		root := &cobra.Command{Use: "program", Run: func(*cobra.Command, []string) { got = debug.SetGCPercent(before) }}
		root.SetArgs(nil)
		if code := Execute(t.Context(), root); code != 0 || got != want {
			t.Errorf("GOGC=%q: exit code %d, GC percent %d, want %d", env, code, got, want)
		}
	}
}
