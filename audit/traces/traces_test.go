package traces

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"go.opentelemetry.io/otel/attribute"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/events/journal"
	"github.com/turnlog/turnlog/internal/testing/frozen"
	"github.com/turnlog/turnlog/internal/testing/golden"
)

var update = golden.Flag()

// store is the stored entries of a deployment.
type store []journal.Record

func (s store) read(_ context.Context, id content.SessionID) iter.Seq2[journal.Record, error] {
	return func(yield func(journal.Record, error) bool) {
		for _, r := range s {
			if r.Entry.Session == id && !yield(r, nil) {
				return
			}
		}
	}
}

// spans returns the spans that end with the entries from one on.
func (s store) spans(t *testing.T, cfg Config, from int) (all []Span) {
	t.Helper()
	cfg.Read = s.read
	tracer := New(cfg)
	for _, r := range s[from:] {
		spans, err := tracer.Add(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, spans...)
	}
	return all
}

// line describes a span. Times are since the first entry.
func line(s Span, since time.Time) string {
	at := func(t time.Time) string { return t.Sub(since).String() }
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s/%s", s.Name, s.SpanContext.TraceID().String()[:4], s.SpanContext.SpanID().String()[:4])
	if s.Parent.IsValid() {
		fmt.Fprintf(&b, " below %s", s.Parent.SpanID().String()[:4])
	}
	fmt.Fprintf(&b, ", %s to %s", at(s.StartTime), at(s.EndTime))
	for _, l := range s.Links {
		fmt.Fprintf(&b, ", after %s", l.SpanContext.SpanID().String()[:4])
	}
	if s.Status.Description != "" {
		fmt.Fprintf(&b, ", failed: %s", s.Status.Description)
	}
	for _, e := range s.Events {
		fmt.Fprintf(&b, "\n    %s at %s", e.Name, at(e.Time))
	}
	for _, a := range s.Attributes {
		if a.Key != keyConversation && a.Key != keySession && a.Key != keyOperation {
			fmt.Fprintf(&b, "\n    %s=%s", a.Key, a.Value.String())
		}
	}
	return b.String()
}

func TestRecordedJournalsHaveTheseSpans(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"approvals", "background", "cancel", "crash", "fail_run", "retries", "task", "tools"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			all := store(frozen.Journal(t, name))
			var b strings.Builder
			for _, s := range all.spans(t, Config{Content: name == "tools"}, 0) {
				fmt.Fprintln(&b, line(s, all[0].Entry.At.Std()))
			}
			golden.Check(t, *update, filepath.Join("testdata", name+".txt"), b.String())
		})
	}
}

// one returns all journals in one store, with their entries by turns.
func one(t *testing.T) (all store) {
	t.Helper()
	journals := frozen.Journals(t)
	for name, records := range journals {
		for _, r := range records {
			r.Entry.Session = content.SessionID(name)
			all = append(all, r)
		}
	}
	slices.SortFunc(all, func(a, b journal.Record) int {
		return cmp.Or(cmp.Compare(a.Seq, b.Seq), cmp.Compare(a.Entry.Session, b.Entry.Session))
	})
	for i := range all {
		all[i].Guard = uint64(i + 1)
	}
	return all
}

func TestSpansFormTrees(t *testing.T) {
	t.Parallel()
	all := one(t)
	spans := all.spans(t, Config{}, 0)
	if len(spans) < 50 {
		t.Fatalf("only %d spans", len(spans))
	}
	byID := map[trace.SpanID]Span{}
	for _, s := range spans {
		if was, twice := byID[s.SpanContext.SpanID()]; twice {
			t.Errorf("%s and %s have one ID", was.Name, s.Name)
		}
		byID[s.SpanContext.SpanID()] = s
		if s.EndTime.Before(s.StartTime) || s.StartTime.IsZero() {
			t.Errorf("%s: from %v to %v", s.Name, s.StartTime, s.EndTime)
		}
	}
	for _, s := range spans {
		parent, ok := byID[s.Parent.SpanID()]
		switch {
		case !s.Parent.IsValid():
			if !strings.HasPrefix(s.Name, opAgent) {
				t.Errorf("%s has no parent", s.Name)
			}
		case !ok:
			t.Errorf("the parent of %s does not exist", s.Name)
		case parent.SpanContext.TraceID() != s.SpanContext.TraceID():
			t.Errorf("%s has the parent %s of another trace", s.Name, parent.Name)
		}
	}
}

// TestNoSpanLastsThroughAQuestion compares spans with the questions of rounds.
func TestNoSpanLastsThroughAQuestion(t *testing.T) {
	t.Parallel()
	asked := 0
	for name, records := range frozen.Journals(t) {
		if name == "background" { // its questions block no turn
			continue
		}
		open := map[content.ApprovalID]time.Time{}
		spans := store(records).spans(t, Config{}, 0)
		for _, r := range records {
			at := r.Entry.At.Std()
			for _, e := range r.Entry.Events {
				switch e := e.(type) { //nolint:gochecksumtype // others ask nothing
				case events.ApprovalRequired:
					open[e.Approval.ID] = at
				case events.ApprovalResolved:
					asked++
					for _, s := range spans {
						if s.StartTime.Before(open[e.Approval]) && s.EndTime.After(at) {
							t.Errorf("%s: %s lasts through %s", name, s.Name, e.Approval)
						}
					}
				}
			}
		}
	}
	if asked == 0 {
		t.Error("there was no question")
	}
}

// TestATracerThatStartsAnywhereYieldsTheSame starts before each entry, and also with memory for only one session.
func TestATracerThatStartsAnywhereYieldsTheSame(t *testing.T) {
	t.Parallel()
	all := one(t)
	byValue := gocmp.Comparer(func(a, b Span) bool { return line(a, time.Time{}) == line(b, time.Time{}) })
	whole := all.spans(t, Config{}, 0)
	for from := 0; from < len(all); from += 7 {
		before := len(all[:from].spans(t, Config{}, 0))
		if diff := gocmp.Diff(whole[before:], all.spans(t, Config{Sessions: 1}, from), byValue, cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("from entry %d, -want +got:\n%s", from, diff)
		}
	}
}

func TestATurnBelongsToTheTraceOfItsSender(t *testing.T) {
	t.Parallel()
	const sender = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-0"
	for flag, want := range map[string]int{"1": 1, "0": 0} { // 0: the sender's trace is not sampled
		all := store(frozen.Journal(t, "plain"))
		for i := range all {
			all[i].TraceParent = sender + flag
		}
		roots := slices.DeleteFunc(all.spans(t, Config{}, 0), func(s Span) bool { return !strings.HasPrefix(s.Name, opAgent) })
		if len(roots) < want || want == 0 && len(roots) > 0 {
			t.Fatalf("flag %s: %d turns", flag, len(roots))
		}
		for _, s := range roots {
			if got := s.Parent.TraceID().String() + "-" + s.Parent.SpanID().String(); !strings.Contains(sender, got) || s.SpanContext.TraceID() != s.Parent.TraceID() {
				t.Errorf("the parent of %s is %s", s.Name, got)
			}
		}
	}
}

// TestASamplerDecidesAboutTurns has samplers that ask the sender, and samplers that do not.
func TestASamplerDecidesAboutTurns(t *testing.T) {
	t.Parallel()
	const sender = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-0"
	for _, tt := range []struct {
		sampler sdk.Sampler
		want    string // spans of a turn without a traced sender, of one whose trace is not sampled, and of one whose trace is
	}{
		{nil, "true false true"},
		{sdk.ParentBased(sdk.NeverSample()), "false false true"},
		{sdk.AlwaysSample(), "true true true"},
		{sdk.NeverSample(), "false false false"},
	} {
		var got []bool
		for _, parent := range []string{"", sender + "0", sender + "1"} {
			all := store(frozen.Journal(t, "plain"))
			for i := range all {
				all[i].TraceParent = parent
			}
			got = append(got, len(all.spans(t, Config{Sampler: tt.sampler}, 0)) > 0)
		}
		if fmt.Sprint(got) != "["+tt.want+"]" {
			t.Errorf("%v: %v, want %s", tt.sampler, got, tt.want)
		}
	}
}

func TestContentIsOnlyThereOnRequest(t *testing.T) {
	t.Parallel()
	has := func(s Span) bool {
		return slices.ContainsFunc(s.Attributes, func(a attribute.KeyValue) bool {
			return a.Key == keyArguments || a.Key == keyResult || a.Key == keyMessages
		})
	}
	all := one(t)
	if slices.ContainsFunc(all.spans(t, Config{}, 0), has) || !slices.ContainsFunc(all.spans(t, Config{Content: true}, 0), has) {
		t.Error("content is there when it must not be, or not there when it must")
	}
}
