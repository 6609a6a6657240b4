package agent_test

import (
	"context"
	"strings"
	"testing"

	"github.com/turnlog/turnlog/agent"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events/journal"
	"github.com/turnlog/turnlog/model"
	"github.com/turnlog/turnlog/model/modeltest"
	"github.com/turnlog/turnlog/tool/output"
)

func TestInputMayReferToBlobs(t *testing.T) {
	t.Parallel()
	store := output.NewMemory(0)
	id, _, err := store.PutFrom(t.Context(), strings.NewReader("an image"))
	if err != nil {
		t.Fatal(err)
	}
	var seen []byte
	m := modeltest.NewFake("m", func(_ context.Context, r model.Request) (model.Reply, error) {
		for _, p := range r.Transcript[0].Parts {
			seen = p.Media.Bytes
		}
		return modeltest.Text("fine"), nil
	})
	d := start(t, agent.Config{
		Model: m, Blobs: store, Journal: journal.NewMemory(),
		Input: []content.Item{content.NewItem(content.User, content.BlobPart("a.png", "image/png", id, 8))},
	})
	if _, err := d.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if string(seen) != "an image" {
		t.Errorf("the model saw %q", seen)
	}
	if kept := d.Snapshot().Transcript[0].Parts[0].Media; len(kept.Bytes) > 0 || kept.URI != content.BlobURI(id) {
		t.Errorf("the transcript holds %+v", kept)
	}
}
