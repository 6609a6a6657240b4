package extension_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/extension"
	"github.com/turnlog/turnlog/model"
	"github.com/turnlog/turnlog/tool"
)

func shellHook(t *testing.T, script string, change ...func(*extension.HookCommand)) extension.Hook {
	t.Helper()
	c := extension.HookCommand{
		Name: "h", Points: extension.HookPoints(), Argv: []string{"sh", "-c", script}, Dir: t.TempDir(), Timeout: time.Minute,
	}
	for _, f := range change {
		f(&c)
	}
	h, err := extension.NewHookCommand(c)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func TestHookCommandDecides(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		script string
		at     extension.Point
		want   extension.ActionKind
		reason string
		fails  string
	}{
		"continues silently":   {script: "true"},
		"leaves a note":        {script: "echo looked at it", reason: "looked at it"},
		"goes on for a reason": {script: `echo '{"action":"continue","reason":"fine"}'`, reason: "fine"},
		"skips":                {script: `echo '{"action":"skip","reason":"not that"}'`, want: extension.Skip, reason: "not that"},
		"terminates":           {script: `echo '{"action":"terminate"}'`, want: extension.Terminate},
		"vetoes a call":        {script: "echo no >&2; exit 2", at: extension.PreToolExecution, want: extension.Skip, reason: "no"},
		"vetoes a model call":  {script: "echo no; exit 2", at: extension.PreLlmCall, want: extension.Terminate, reason: "no"},
		"vetoes silently":      {script: "exit 2", at: extension.PostLlmCall, want: extension.Terminate, reason: "exit code 2"},
		"says too much":        {script: "yes | head -n 200000; exit 0", reason: strings.Repeat("y\n", 1000) + "…"},
		"fails":                {script: "echo broken >&2; exit 1", fails: "exit status 1: broken"},
		"is killed":            {script: "kill -9 $$", fails: "signal: killed: no output"},
		"answers half":         {script: `echo '{"action":'`, fails: "not a decision"},
		"answers something":    {script: `echo '{"action":"block"}'`, fails: `action "block": use continue, skip or terminate`},
		"answers with a typo":  {script: `echo '{"acton":"skip"}'`, fails: `unknown field "acton"`},
		"answers twice":        {script: `echo '{"action":"skip"}{"action":"continue"}'`, fails: "more than one"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a, err := shellHook(t, tc.script).OnEvent(t.Context(), extension.HookEvent{Point: tc.at})
			if tc.fails != "" {
				if err == nil || !strings.Contains(err.Error(), tc.fails) {
					t.Errorf("OnEvent = %+v, %v, want %q", a, err, tc.fails)
				}
				return
			}
			if err != nil || a.Kind != tc.want || a.Reason != tc.reason {
				t.Errorf("OnEvent = %+v, %v; want %v, %.80q", a, err, tc.want, tc.reason)
			}
		})
	}
}

func TestHookCommandReadsTheEvent(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	h := shellHook(t, "cat > input", func(c *extension.HookCommand) { c.Dir = dir })
	big := strings.Repeat("long ", 100_000)
	for _, e := range []extension.HookEvent{
		{Call: &content.ToolCall{ID: "c", Name: "rm", Input: json.RawMessage(`{"path":"x"}`)}},
		{Request: &model.Request{
			Transcript: []content.Item{content.UserText(big)}, Tools: []tool.Spec{{Name: "rm"}},
			Cache: &model.CacheRequest{Mode: "required"}, Schema: json.RawMessage(`{"type":"object"}`),
		}},
		{Reply: &model.Reply{FinishReason: content.Completed}},
		{OldTokens: 9, NewTokens: 4},
	} {
		e.Point, e.Session, e.Turn, e.Round = extension.PreLlmCall, "s", "turn-1", 2
		if _, err := h.OnEvent(t.Context(), e); err != nil {
			t.Fatal(err)
		}
		raw, err := os.ReadFile(filepath.Join(dir, "input"))
		if err != nil {
			t.Fatal(err)
		}
		var got struct {
			Point, Session, Turn string
			Round                int
			Call                 *content.ToolCall
			Request              *struct {
				Transcript []content.Item
				Tools      []string
				Cache      *model.CacheRequest
				Schema     struct{ Type string }
			}
			Reply *struct {
				FinishReason string `json:"finish_reason"`
			}
			OldTokens int `json:"old_tokens"`
		}
		if err := json.Unmarshal(raw, &got); err != nil {
			t.Fatalf("%v: %.200s", err, raw)
		}
		switch {
		case got.Point != "pre_llm_call" || got.Session != "s" || got.Turn != "turn-1" || got.Round != 2,
			(got.Call != nil) != (e.Call != nil), got.Call != nil && got.Call.Name != "rm",
			(got.Request != nil) != (e.Request != nil), got.Request != nil && (got.Request.Transcript[0].Text() != big || got.Request.Tools[0] != "rm"),
			got.Request != nil && (got.Request.Cache.Mode != "required" || got.Request.Schema.Type != "object"),
			(got.Reply != nil) != (e.Reply != nil), got.Reply != nil && got.Reply.FinishReason != "completed", got.OldTokens != e.OldTokens:
			t.Errorf("stdin = %.300s", raw)
		}
	}
}

func TestHookCommandSeesOnlyItsTools(t *testing.T) {
	t.Parallel()
	h := shellHook(t, "exit 2", func(c *extension.HookCommand) {
		c.Points, c.Tools = []extension.Point{extension.PreToolExecution}, []string{"shell_*", "rm"}
	})
	for name, want := range map[string]extension.ActionKind{"shell_exec": extension.Skip, "rm": extension.Skip, "rmdir": extension.Continue} {
		e := extension.HookEvent{Point: extension.PreToolExecution, Call: &content.ToolCall{Name: name}}
		if a, err := h.OnEvent(t.Context(), e); err != nil || a.Kind != want {
			t.Errorf("%s: %v, %v; want %v", name, a, err, want)
		}
	}
}

func TestHookCommandStopsAtItsTimeout(t *testing.T) {
	t.Parallel()
	slow := shellHook(t, "sleep 600 & sleep 600", func(c *extension.HookCommand) { c.Timeout = 200 * time.Millisecond })
	if a, err := slow.OnEvent(t.Context(), extension.HookEvent{}); err == nil || !strings.Contains(err.Error(), "stopped after 200ms") {
		t.Errorf("OnEvent = %v, %v", a, err)
	}
	enough := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	time.AfterFunc(100*time.Millisecond, func() { cancel(enough) })
	if _, err := shellHook(t, "sleep 600").OnEvent(ctx, extension.HookEvent{}); !errors.Is(err, enough) {
		t.Errorf("OnEvent = %v, want the cause", err)
	}
}

func TestNewHookCommandRefusesBadConfig(t *testing.T) {
	t.Parallel()
	points := []extension.Point{extension.PreToolExecution}
	argv := []string{"true"}
	for want, c := range map[string]extension.HookCommand{
		"no name":                      {Points: points, Argv: argv},
		"no command":                   {Name: "h", Points: points},
		"no point":                     {Name: "h", Argv: argv},
		"positive":                     {Name: "h", Points: points, Argv: argv, Timeout: -1},
		`unknown point "before_model"`: {Name: "h", Points: []extension.Point{extension.BeforeModel}, Argv: argv},
		"points with a call":           {Name: "h", Points: []extension.Point{extension.PreLlmCall}, Tools: []string{"x"}, Argv: argv},
	} {
		if h, err := extension.NewHookCommand(c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("NewHookCommand = %v, %v, want %q", h, err, want)
		}
	}
	gone := shellHook(t, "", func(c *extension.HookCommand) { c.Argv = []string{"no-such-command-here"} })
	if _, err := gone.OnEvent(t.Context(), extension.HookEvent{}); err == nil {
		t.Error("OnEvent = nil error for a missing command")
	}
}

func TestHookCommandHasItsNameAndPoints(t *testing.T) {
	t.Parallel()
	h := shellHook(t, "true")
	open := extension.FailOpen(h)
	if h.Name() != "h" || !slices.Equal(h.Points(), extension.HookPoints()) || extension.FailsOpen(h) || !extension.FailsOpen(open) {
		t.Errorf("hook %s at %v, fails open: %t", h.Name(), h.Points(), extension.FailsOpen(h))
	}
}

func TestHooksAndMutatorsHaveDifferentPoints(t *testing.T) {
	t.Parallel()
	for _, p := range extension.HookPoints() {
		if p.ForMutators() {
			t.Errorf("mutators run at %s", p)
		}
	}
}
