package content

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestAResultItemSaysHowItsCallEnded(t *testing.T) {
	t.Parallel()
	ok := NewResult("c1", "t", StatusOK, "done")
	if diff := cmp.Diff(NewItem(Tool, ResultPart(ok)), ResultItem(ok)); diff != "" {
		t.Errorf("a call that ended well (-want +got):\n%s", diff)
	}
	failed := NewResult("c1", "t", StatusCancelled, "stopped")
	failed.Code = "cancelled"
	failed.Metadata = Metadata{}.With(MetaInterruptReason, "enough").With("private", "x")
	got := ResultItem(failed).Metadata
	want := Metadata{}.With(MetaToolStatus, StatusCancelled).With(MetaFailureCode, "cancelled").With(MetaInterruptReason, "enough")
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("metadata (-want +got):\n%s", diff)
	}
}

func TestALateResultTellsTheModelOfItsCall(t *testing.T) {
	t.Parallel()
	for status, want := range map[Status]string{
		StatusOK: "Background tool call c1 completed: text", StatusError: "Background tool call c1 failed: text",
	} {
		r := NewResult("c1", "t", status, "text")
		it := LateResult(r)
		if it.Kind != Notification || len(it.Parts) != 2 || it.Parts[0].Text != want {
			t.Errorf("%s: %+v, want %q", status, it, want)
		}
	}
}

func TestAModelAnswersOnlySomeLastItems(t *testing.T) {
	t.Parallel()
	compacted := AssistantText("summary")
	compacted.FinishReason = Compaction
	for name, row := range map[string]struct {
		items []Item
		want  bool
	}{
		"nothing":      {nil, false},
		"input":        {[]Item{AssistantText("a"), UserText("q")}, true},
		"a result":     {[]Item{ResultItem(NewResult("c1", "t", StatusOK, "x"))}, true},
		"a late one":   {[]Item{LateResult(NewResult("c1", "t", StatusOK, "x"))}, true},
		"an answer":    {[]Item{UserText("q"), AssistantText("a")}, false},
		"a compaction": {[]Item{UserText("q"), compacted}, true},
		"instructions": {[]Item{UserText("q"), SystemText("s")}, false},
	} {
		if got := Runnable(row.items); got != row.want {
			t.Errorf("%s: %t, want %t", name, got, row.want)
		}
	}
}

func TestTheReasonOfADenialComesBackFromItsResult(t *testing.T) {
	t.Parallel()
	if got := NewResult("c1", "t", StatusDenied, DenialText("not here")).DenialReason(); got != "not here" {
		t.Errorf("DenialReason = %q", got)
	}
}
