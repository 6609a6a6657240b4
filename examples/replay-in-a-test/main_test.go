package main

import (
	"bytes"
	"os"
	"testing"

	"github.com/turnlog/turnlog/content"
)

// A journal of an incident, or of an earlier release, is a permanent test.
func TestTheRecordedSessionReplays(t *testing.T) {
	t.Parallel()
	exported, err := os.ReadFile("testdata/sum.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	s, err := replay("sum", bytes.NewBuffer(exported))
	if err != nil {
		t.Fatal(err)
	}
	if s.Last == nil || s.Last.FinishReason != content.Completed || s.Used.ToolCalls != 1 {
		t.Errorf("it ended as %+v with %+v used", s.Last, s.Used)
	}
	if got := s.Transcript[len(s.Transcript)-1].Text(); got != "It is 5." {
		t.Errorf("the answer was %q", got)
	}
}

func TestAForgedJournalIsFoundOut(t *testing.T) {
	t.Parallel()
	exported, err := os.ReadFile("testdata/sum.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	forged := bytes.Replace(exported, []byte("It is 5."), []byte("It is 6."), 1)
	if s, err := replay("sum", bytes.NewBuffer(forged)); err == nil {
		t.Errorf("the change was not detected: %q", s.Transcript[len(s.Transcript)-1].Text())
	}
}
