package engine_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/engine"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/loop"
	"github.com/turnlog/turnlog/model"
	"github.com/turnlog/turnlog/model/modeltest"
	"github.com/turnlog/turnlog/tool/output"
)

// textOnly is a model that takes only text.
type textOnly struct{ model.Model }

func (textOnly) Capabilities() model.Capabilities { return model.Capabilities{} }

// shows makes a model call in a round and returns what the model saw and the report.
func shows(t *testing.T, blobs engine.Blobs, text bool, round int, items ...content.Item) ([]content.Item, commands.Command) {
	t.Helper()
	var seen []content.Item
	var m model.Model = modeltest.NewFake("m", func(_ context.Context, r model.Request) (model.Reply, error) {
		seen = r.Transcript
		return modeltest.Text("fine"), nil
	})
	if text {
		m = textOnly{m}
	}
	before := content.DetachItems(items)
	e := loop.CallModel{ModelCall: commands.ModelCall{Turn: "turn-1", Round: round, Attempt: 1}, TranscriptLen: len(items)}
	rep := engine.NewRunner(engine.Config{Blobs: blobs}).CallModel(t.Context(), e, m, grown(t, items), func(events.Event) {})
	if diff := cmp.Diff(before, items); diff != "" {
		t.Errorf("the transcript changed: %s", diff)
	}
	return seen, rep
}

// grown returns the view of a session whose transcript was replaced, and then grew to the items.
func grown(t *testing.T, items []content.Item) *engine.View {
	t.Helper()
	s := &engine.Session{Replica: engine.Replica{State: &loop.State{Session: "s"}}, Catalog: catalog(t)}
	for _, transcript := range [][]content.Item{nil, {content.UserText("other")}, items[:max(1, len(items)/2)], items} {
		s.State.Transcript = transcript
		s.View(nil)
	}
	return s.View(nil)
}

// put stores data and returns a part that refers to it.
func put(t *testing.T, s output.Store, name, mime string, data []byte) content.Part {
	t.Helper()
	id, _, err := s.PutFrom(t.Context(), bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	return content.BlobPart(name, mime, id, int64(len(data)))
}

func said(p ...content.Part) content.Item { return content.NewItem(content.User, p...) }

func warnings(t *testing.T, c commands.Command) []events.Warning {
	t.Helper()
	rep, ok := c.(commands.ReportReply)
	if !ok {
		t.Fatalf("report %+v", c)
	}
	return rep.Warnings
}

func TestAModelSeesTheBytesOfABlob(t *testing.T) {
	t.Parallel()
	store, want := output.NewMemory(0), bytes.Repeat([]byte{0, 1, 2, 3}, 50_000)
	seen, rep := shows(t, store, false, 1, said(content.TextPart("look"), put(t, store, "a.png", "image/png", want)))
	got := seen[0].Parts[1]
	if got.Kind != content.FileKind || got.Name != "a.png" || got.Media.MIME != "image/png" || got.Media.URI != "" || !bytes.Equal(got.Media.Bytes, want) {
		t.Errorf("the model saw %s, %d bytes, URI %q", got.Name, len(got.Media.Bytes), got.Media.URI)
	}
	if w := warnings(t, rep); w != nil {
		t.Errorf("warnings %v", w)
	}
}

func TestTheModelAndAWarningNameAMissingBlob(t *testing.T) {
	t.Parallel()
	gone := content.BlobPart("a.png", "image/png", strings.Repeat("0", 64), 7)
	const want = "[attached: a.png, image/png, 7 bytes; not shown: it is no longer stored]"
	answered := content.AssistantText("I see")
	for name, tc := range map[string]struct {
		blobs  engine.Blobs
		round  int
		items  []content.Item
		warned bool
	}{
		"first round":       {output.NewMemory(0), 1, []content.Item{said(gone), answered, content.UserText("and?")}, true},
		"later":             {output.NewMemory(0), 2, []content.Item{said(gone), answered}, false},
		"new in this round": {output.NewMemory(0), 2, []content.Item{said(content.TextPart("hi")), answered, said(gone)}, true},
		"no store":          {nil, 1, []content.Item{said(gone)}, true},
	} {
		seen, rep := shows(t, tc.blobs, false, tc.round, tc.items...)
		named := false
		for _, it := range seen {
			named = named || it.Text() == want
		}
		if w := warnings(t, rep); !named || (len(w) == 1) != tc.warned || tc.warned && (w[0].Code != "blob_missing" || w[0].Message != want) {
			t.Errorf("%s: the model saw %+v, warnings %v", name, seen, w)
		}
	}
}

// No model makes the host read anything, and input refers to blobs only.
func TestReferencesOfModelsAreNotRead(t *testing.T) {
	t.Parallel()
	store := output.NewMemory(0)
	secret := put(t, store, "a.txt", "text/plain", []byte("secret"))
	other := func(uri string) content.Part {
		return content.Part{Kind: content.MediaKind, Media: &content.Media{MIME: "image/png", URI: uri}}
	}
	own := content.FilePart("b.txt", "text/plain", []byte("held by the part"))
	result := content.ToolResult{CallID: "c", Status: content.StatusOK, Output: []content.Part{own, other("https://example.org/a.png")}}
	items := []content.Item{
		said(other("https://example.org/a.png"), other("file:///etc/passwd"), other("data:image/png;base64,AA==")),
		content.NewItem(content.Assistant, secret),
		content.NewItem(content.Tool, content.ResultPart(result)),
		content.NewItem(content.Notification, content.ResultPart(result)),
	}
	for _, text := range []bool{false, true} {
		seen, _ := shows(t, store, text, 1, items...)
		if diff := cmp.Diff(items, seen); diff != "" {
			t.Errorf("text only %v: %s", text, diff)
		}
	}
	seen, rep := shows(t, store, false, 1, said(other(content.BlobURI("../../etc/passwd"))))
	if w := warnings(t, rep); len(w) != 1 || !strings.Contains(seen[0].Text(), "no longer stored") {
		t.Errorf("a path: the model saw %+v", seen)
	}
}

// Both results in time and late ones refer to blobs.
func TestAModelSeesTheBlobsOfAResult(t *testing.T) {
	t.Parallel()
	store := output.NewMemory(0)
	want := bytes.Repeat([]byte{0, 1, 2, 3}, 50_000)
	result := content.ToolResult{CallID: "c", Status: content.StatusOK, Output: []content.Part{
		content.TextPart("look"), put(t, store, "a.png", "image/png", want), put(t, store, "b.txt", "text/plain", []byte("some text")),
	}}
	gone := content.ToolResult{CallID: "d", Output: []content.Part{content.BlobPart("c.png", "image/png", strings.Repeat("0", 64), 7)}}
	items := []content.Item{
		content.NewItem(content.Tool, content.ResultPart(result)), content.NewItem(content.Notification, content.ResultPart(result)),
		content.NewItem(content.Tool, content.ResultPart(gone)),
	}
	seen, rep := shows(t, store, false, 2, items...)
	for i := range 2 {
		parts := seen[i].Results()[0].Output
		if parts[0].Text != "look" || !bytes.Equal(parts[1].Media.Bytes, want) || parts[1].Media.URI != "" || string(parts[2].Media.Bytes) != "some text" {
			t.Errorf("item %d: the model saw %.200v", i, parts)
		}
	}
	if w := warnings(t, rep); len(w) != 1 || !strings.Contains(w[0].Message, "c.png, image/png, 7 bytes; not shown: it is no longer stored") {
		t.Errorf("warnings %v", w)
	}
	seen, _ = shows(t, store, true, 2, items...)
	if got := seen[0].Results()[0].Text(); got != "look[attached: a.png, image/png, 200000 bytes; not shown: this model takes text only]\nFile b.txt:\nsome text\n" {
		t.Errorf("a text model saw %q", got)
	}
}

func TestTheModelSeesANoteInsteadOfALargeBlob(t *testing.T) {
	t.Parallel()
	store := output.NewMemory(4 * engine.MaxAttached)
	const half = engine.MaxAttached/2 + 1
	old := put(t, store, "old.png", "image/png", make([]byte, half))
	recent := put(t, store, "new.png", "image/png", bytes.Repeat([]byte{1}, half))
	seen, rep := shows(t, store, false, 1, said(old), said(recent))
	if n := len(seen[1].Parts[0].Media.Bytes); n != half || !strings.HasPrefix(seen[0].Text(), "[attached: old.png, image/png, 16777217 bytes; not shown: it is too large") {
		t.Errorf("the model saw %d bytes of the new one, and %q", n, seen[0].Text())
	}
	if w := warnings(t, rep); w != nil {
		t.Errorf("warnings %v", w)
	}
	lies := put(t, store, "lies.png", "image/png", make([]byte, engine.MaxAttached+1))
	lies.Metadata = nil
	if seen, _ := shows(t, store, false, 1, said(lies)); !strings.Contains(seen[0].Text(), "too large") {
		t.Errorf("the model saw %.200q", seen[0].Text())
	}
}

func TestATextModelIsShownTexts(t *testing.T) {
	t.Parallel()
	store := output.NewMemory(0)
	seen, rep := shows(t, store, true, 1, said(
		content.TextPart("Look."),
		put(t, store, "a.go", "text/x-go", []byte("package a")), content.FilePart("b.md", "text/markdown", []byte("# b")),
		put(t, store, "c.png", "image/png", []byte{0xff}), content.FilePart("d.bin", "text/plain", []byte{0xff, 0}),
	))
	const want = "Look.\nFile a.go:\npackage a\n\nFile b.md:\n# b\n" +
		"[attached: c.png, image/png, 1 bytes; not shown: this model takes text only]" +
		"[attached: d.bin, text/plain, 2 bytes; not shown: this model takes text only]"
	if got := seen[0].Text(); got != want || warnings(t, rep) != nil {
		t.Errorf("the model saw\n%s\nwant\n%s", got, want)
	}
}

// cut is a store whose server is away in the middle of a blob.
type cut struct{}

func (cut) CopyTo(_ context.Context, _ string, w io.Writer) (bool, error) {
	_, err := w.Write([]byte("half"))
	return false, errors.Join(err, errors.New("no server answers"))
}

func TestBlobsThatCannotBeReadNowAreReadAgain(t *testing.T) {
	t.Parallel()
	sum := sha256.Sum256([]byte("half"))
	_, c := shows(t, cut{}, false, 1, said(content.BlobPart("a", "image/png", hex.EncodeToString(sum[:]), 4)))
	rep, ok := c.(commands.ReportModelFailed)
	if !ok || !rep.Class.Retryable() || rep.Code != "blob_unread" || !strings.Contains(rep.Message, "no server answers") {
		t.Errorf("report %+v", c)
	}
}
