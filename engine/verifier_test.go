package engine_test

import (
	"context"
	"errors"
	"testing"

	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/engine"
	"github.com/turnlog/turnlog/extension"
	"github.com/turnlog/turnlog/loop"
)

// verifier is a verifier function.
type verifier func(ctx context.Context, dir string) (bool, string, error)

func (f verifier) Verify(ctx context.Context, dir string) (pass bool, output string, err error) {
	return f(ctx, dir)
}

func TestVerifiersReturnVerdicts(t *testing.T) {
	t.Parallel()
	said := func(pass bool, out string, err error) extension.Verifier {
		return verifier(func(context.Context, string) (bool, string, error) { return pass, out, err })
	}
	for name, tc := range map[string]struct {
		argv   []string
		fn     extension.Verifier
		pass   bool
		exit   int
		output string
	}{
		"a function says yes":  {fn: said(true, "fine", nil), pass: true, output: "fine"},
		"a function says no":   {fn: said(false, "a\xff", nil), exit: 1, output: "a\uFFFD"},
		"a function fails":     {fn: said(true, "half", errors.New("no disk")), exit: -1, output: "half\n[no disk]"},
		"a function panics":    {fn: verifier(func(context.Context, string) (bool, string, error) { panic("oops") }), exit: -1, output: "[the verifier panicked: oops]"},
		"no function":          {exit: -1, output: "the verifier of this task is a function of a process that has ended"},
		"a command passes":     {argv: []string{"true"}, fn: said(false, "", nil), pass: true},
		"a command says no":    {argv: []string{"sh", "-c", "echo no; exit 7"}, exit: 7, output: "no\n[exit status 7]"},
		"a command is missing": {argv: []string{"no-such-command-here"}, exit: -1, output: `[verifier no-such-command-here: exec: "no-such-command-here": executable file not found in $PATH]`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, ok := engine.NewRunner(engine.Config{}).Verify(t.Context(), loop.Verify{Task: "t", Attempt: 2, Command: tc.argv}, tc.fn, "").(commands.ReportVerify)
			f := got.Finished
			if !ok || got.Task != "t" || f.Attempt != 2 || f.Success != tc.pass || f.Exit != tc.exit || f.Output != tc.output {
				t.Errorf("report = %+v", got)
			}
		})
	}
}

func TestAStoppedVerifierReportsAndAnAbandonedOneDoesNot(t *testing.T) {
	t.Parallel()
	v := verifier(func(ctx context.Context, _ string) (bool, string, error) { return false, "so far", context.Cause(ctx) })
	for cause, reports := range map[error]bool{engine.ErrStop: true, errors.New("gone"): false} {
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(cause)
		if got := engine.NewRunner(engine.Config{}).Verify(ctx, loop.Verify{}, v, ""); (got != nil) != reports {
			t.Errorf("%v: report = %+v", cause, got)
		}
	}
}
