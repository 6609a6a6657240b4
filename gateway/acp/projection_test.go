package acp

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	sdk "github.com/coder/acp-go-sdk"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/events/journal"
	"github.com/turnlog/turnlog/gateway/internal/stream"
	"github.com/turnlog/turnlog/gateway/internal/streamtest"
	"github.com/turnlog/turnlog/internal/testing/frozen"
	"github.com/turnlog/turnlog/internal/testing/golden"
)

var update = golden.Flag()

// seen returns what an editor sees of a journal, and what belongs to requests, a line each.
func seen(t *testing.T, all []journal.Record) (lines []string) {
	t.Helper()
	p, st := projection{folder: "/site"}, stream.New(stream.Cursor{})
	for _, rec := range all {
		st.Entry(rec, func(ev stream.Event) { p.show(ev, func(f any) { lines = append(lines, line(t, f)) }) })
	}
	return lines
}

func line(t *testing.T, fact any) string {
	t.Helper()
	switch f := fact.(type) {
	case sdk.SessionUpdate:
		return golden.Line(t, f)
	case stream.InputTaken:
		return fmt.Sprintf("heard by %s, of command %s: %s %q", f.Turn, f.Command, f.Item.Kind, f.Item.Text())
	case events.Approval:
		return fmt.Sprintf("asked %s: %s", f.ID, golden.Line(t, questionOf("s", f, "/site")))
	case events.ApprovalResolved:
		return fmt.Sprintf("settled %s: %s", f.Approval, f.Outcome)
	case turnEnd:
		r, err := f.response()
		if err != nil {
			return fmt.Sprintf("end of %s: %v", f.turn, err)
		}
		return fmt.Sprintf("end of %s: %s", f.turn, golden.Line(t, r))
	}
	return golden.Line(t, fact)
}

func TestRecordedJournalsLookLikeThis(t *testing.T) {
	t.Parallel()
	for _, name := range []string{
		"approvals", "open_approval", "plain", "cancel", "changes", "fail_run", "partial", "replies", "model_lost", "limits", "background", "users", "task", "tools",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			golden.Check(t, *update, filepath.Join("testdata", name+".txt"), strings.Join(seen(t, frozen.Journal(t, name)), "\n")+"\n")
		})
	}
}

// Fragments that were shown before their attempt failed cannot be removed, so the editor gets a note.
func TestAnAttemptThatFailsIsTakenBack(t *testing.T) {
	t.Parallel()
	var live, later string
	take := func(text *string) func(stream.Event) {
		p := &projection{}
		return func(ev stream.Event) {
			p.show(ev, func(f any) {
				if u, ok := f.(sdk.SessionUpdate); ok && u.AgentMessageChunk != nil {
					*text += u.AgentMessageChunk.Content.Text.Text
				}
			})
		}
	}
	streamtest.Live(take(&live))
	st, show := stream.New(stream.Cursor{}), take(&later)
	for _, rec := range streamtest.Entries() {
		st.Entry(rec, show)
	}
	if live != "Hal"+again+streamtest.Text || later != streamtest.Text {
		t.Errorf("live %q, later %q", live, later)
	}
}

// A fork's transcript contains the calls of another session. Its own calls have the same places.
func TestAForkShowsWhatWasSaidBefore(t *testing.T) {
	t.Parallel()
	reply := content.NewItem(content.Assistant, content.TextPart("I look."), content.CallPart(content.ToolCall{ID: "c1", Name: "fs_read_file", Input: []byte(`{"path":"a.txt","first_line":7}`)}))
	begin := events.RunStarted{Transcript: []content.Item{
		content.SystemText("Be brief."), content.UserText("What is in a.txt?"), reply, content.ResultItem(content.NewResult("c1", "fs_read_file", content.StatusOK, "x")),
	}}
	got := seen(t, []journal.Record{{Head: journal.Head{Seq: 1}, Entry: events.Entry{Events: []events.Event{begin}}}})
	golden.Check(t, *update, "testdata/fork.txt", strings.Join(got, "\n")+"\n")
}

func TestToolsHaveTitlesPlacesAndDiffs(t *testing.T) {
	t.Parallel()
	var lines []string
	for _, call := range []string{
		`fs_read_file {"path":"docs/a.md","first_line":3}`,
		`fs_write_file {"path":"a.txt","content":"new\n"}`,
		`fs_replace_in_file {"path":"a.txt","old":"x","new":"y"}`,
		`fs_patch {"patch":"*** Begin Patch\n*** Update File: a.go\n@@\n a\n-b\n+c\n*** Add File: n.go\n+n\n*** Delete File: old.go\n*** End Patch"}`,
		`fs_patch {"patch":"nonsense"}`,
		`shell_exec {"argv":["go","test","./..."]}`,
		`shell_exec {"script":"cd x\nmake"}`,
		`http_fetch {"url":"http://127.0.0.1/"}`,
		`fs_search {"pattern":"TODO","path":"docs"}`,
		`weather {"path":"Oslo"}`,
		`fs_read_file {"path":`,
	} {
		name, input, _ := strings.Cut(call, " ")
		var u sdk.SessionToolCallUpdate
		viewOf(name, input, "/site").describe(&u)
		lines = append(lines, string(kindOf(name))+" "+golden.Line(t, sdk.SessionUpdate{ToolCallUpdate: &u}))
	}
	golden.Check(t, *update, "testdata/views.txt", strings.Join(lines, "\n")+"\n")
}

// A result has data for programs in addition to text for people.
func TestAResultHasATextAndItsData(t *testing.T) {
	t.Parallel()
	both := content.NewResult("c1", "shell_exec", content.StatusOK, "hi\n")
	both.Output = append(both.Output, content.StructuredPart([]byte(`{"exit_code":0}`)))
	data := content.ToolResult{Output: both.Output[1:], Status: content.StatusOK}
	for _, c := range []struct {
		result content.ToolResult
		want   string
	}{
		{both, `[{"content":{"text":"hi\n","type":"text"},"type":"content"}] {"exit_code":0}`},
		{data, `[{"content":{"text":"` + "```json\\n{\\\"exit_code\\\":0}\\n```" + `","type":"text"},"type":"content"}] {"exit_code":0}`},
		{content.NewResult("c1", "x", content.StatusOK, "[1]"), `[{"content":{"text":"[1]","type":"text"},"type":"content"}] [1]`},
		{content.NewResult("c1", "x", content.StatusOK, "no JSON"), `[{"content":{"text":"no JSON","type":"text"},"type":"content"}] "no JSON"`},
	} {
		if got := golden.Line(t, contentOf(c.result.Output)) + " " + golden.Line(t, outputOf(c.result)); got != c.want {
			t.Errorf("%s, want %s", got, c.want)
		}
	}
}
