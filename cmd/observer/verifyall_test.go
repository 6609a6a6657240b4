package main

import (
	"bytes"
	"context"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/turnlog/turnlog/audit/verdict"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/internal/cli"
	"github.com/turnlog/turnlog/internal/testing/clitest"
)

// reports reports sessions on a terminal, all of which are whole.
func reports(ctx context.Context, judge func(content.SessionID) error, sessions ...content.SessionID) (screen string, err error) {
	var out bytes.Buffer
	cmd := &cobra.Command{}
	cmd.SetOut(&out)
	v := &verifier{app: &app{getenv: clitest.NoEnv}, cmd: cmd}
	err = v.reportAll(ctx, &progressBar{&out, len(sessions)}, sessions, func(s content.SessionID) judgment {
		j := judgment{Verdict: &verdict.Verdict{Session: s, Entries: 1}, subject: "session " + string(s), err: judge(s)}
		j.Settle()
		return j
	})
	return out.String(), err
}

func TestAVerdictBeginsALineOfTheTerminal(t *testing.T) {
	t.Parallel()
	screen, err := reports(t.Context(), func(content.SessionID) error { return nil }, "s-1", "s-2", "s-3")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"\r[........................] 0 of 3 sessions\x1b[K\r\x1b[Kok session s-1 ",
		"\n\r[########................] 1 of 3 sessions\x1b[K\r\x1b[Kok session s-2 ",
		"\n\r[################........] 2 of 3 sessions\x1b[K\r\x1b[Kok session s-3 ",
	} {
		if !strings.Contains(screen, want) {
			t.Errorf("%q is not in %q", want, screen)
		}
	}
}

// An interrupt says how far it came, once.
func TestAnInterruptEndsTheVerificationOfAllSessions(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	screen, err := reports(ctx, func(s content.SessionID) error {
		if s == "s-1" {
			return nil
		}
		cancel(&cli.Interrupted{Signal: os.Interrupt})
		return context.Cause(ctx)
	}, "s-1", "s-2", "s-3", "s-4")
	if i, ok := errors.AsType[*cli.Interrupted](err); !ok || i.Signal != os.Interrupt || err.Error() != "interrupted: 1 of 4 sessions are verified" {
		t.Errorf("an interrupted verification = %v", err)
	}
	if strings.Count(screen, "session s-") != 1 || !strings.HasSuffix(screen, "\r\x1b[K") {
		t.Errorf("it printed %q", screen)
	}
}
