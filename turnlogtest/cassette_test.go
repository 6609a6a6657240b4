package turnlogtest_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/turnlog/turnlog/actor"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events/journal"
	"github.com/turnlog/turnlog/model"
	"github.com/turnlog/turnlog/model/modeltest"
	"github.com/turnlog/turnlog/model/record"
	"github.com/turnlog/turnlog/tool"
	"github.com/turnlog/turnlog/turnlogtest"
)

const incident = `
replies:
  - error: {class: overloaded, message: try again, attempts: 1}
    text: Let me look.
    calls: [{name: weather, input: {city: Oslo}}]
  - text: "It is {{(index .Results 0).Text}}, and the password is hunter2-hunter2."
    usage: {input: 12, output: 7}
`

// described is the weather tool with another description.
func described(t *testing.T, description string) tool.Tool {
	t.Helper()
	w, err := tool.Func("weather", description, func(context.Context, place) (string, error) { return "sunny", nil }, tool.ReadOnly())
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// played plays the incident and returns its transcript and its journal.
func played(t *testing.T) (lines []string, records []journal.Record) {
	t.Helper()
	turnlogtest.Bubble(t, func(_ *testing.T, d *turnlogtest.Deployment) {
		s := d.Script(incident)
		s.Say("How is the weather in Oslo?")
		lines, records = turnlogtest.Lines(s.Snapshot().Transcript), d.Records(s.ID())
	}, turnlogtest.Tools(described(t, "The weather in a city.")))
	return lines, records
}

func TestAJournalBecomesACassette(t *testing.T) {
	t.Parallel()
	want, records := played(t)
	cassette, err := record.FromJournal(journal.All(records), record.Config{Secrets: []string{"hunter2-hunter2"}})
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(cassette), "hunter2") {
		t.Error("the cassette has the secret")
	}
	want[len(want)-1] = strings.ReplaceAll(want[len(want)-1], "hunter2-hunter2", "[secret]")
	replay := func(_ string, _ []byte) (model.Model, error) {
		return record.Parse("incident", cassette, record.Config{})
	}
	turnlogtest.Bubble(t, func(t *testing.T, d *turnlogtest.Deployment) {
		s := d.Script("")
		s.Say("How is the weather in Oslo?")
		if diff := cmp.Diff(want, turnlogtest.Lines(s.Snapshot().Transcript)); diff != "" {
			t.Errorf("replayed (-want +got):\n%s", diff)
		}
	}, turnlogtest.Tools(described(t, "Tells the weather.")), turnlogtest.Node(func(c *actor.Config) { c.Models = replay }))
}

func TestAJournalWithoutRepliesIsNoCassette(t *testing.T) {
	t.Parallel()
	_, records := played(t)
	if _, err := record.FromJournal(journal.All(records[:2]), record.Config{}); !errors.Is(err, record.ErrNoReplies) {
		t.Errorf("error %v, want ErrNoReplies", err)
	}
	bad := slices.Clone(records)
	bad[1].Err = errors.New("unreadable")
	if _, err := record.FromJournal(journal.All(bad), record.Config{}); !errors.Is(err, bad[1].Err) {
		t.Errorf("error %v, want that of the entry", err)
	}
}

func TestFilesAreTheSameByBytesAndByDigest(t *testing.T) {
	t.Parallel()
	_, records := played(t)
	cassette, err := record.FromJournal(journal.All(records), record.Config{})
	if err != nil {
		t.Fatal(err)
	}
	m, err := record.Parse("incident", cassette, record.Config{})
	if err != nil {
		t.Fatal(err)
	}
	ask := func(p content.Part) string {
		r := modeltest.Ask("What is this?")
		r.Transcript[0].Parts = append(r.Transcript[0].Parts, p)
		_, err := m.Call(t.Context(), r, func(content.Delta) {})
		if err == nil {
			t.Fatal("the request was recorded")
		}
		return err.Error()
	}
	data := []byte("photo")
	const digest = "f07f0b9b8ffa1c2ef4c0a1b3ec1ff1b2b4b1e2b7f0a0bf7f7a1d6d3f0a0b0c0d"
	if text := ask(content.FilePart("a.jpg", "image/jpeg", data)); strings.Contains(text, "\"bytes\"") || !strings.Contains(text, "blob:") {
		t.Errorf("a file by its bytes is compared as %s", text)
	}
	if text := ask(content.BlobPart("a.jpg", "image/jpeg", digest, 5)); !strings.Contains(text, digest) {
		t.Errorf("a file by its digest is compared as %s", text)
	}
}
