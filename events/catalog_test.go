package events

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestChangesLeadFromOneCatalogToTheNext(t *testing.T) {
	t.Parallel()
	none := Catalog{}
	old := Catalog{Digest: "1", Sources: []CatalogSource{
		{Name: "files", Tools: []ToolRef{{"list", "l1"}, {"read", "r1"}, {"write", "w1"}}},
		{Name: "gone", Tools: []ToolRef{{"x", "x1"}}},
		{Name: "same", Tools: []ToolRef{{"y", "y1"}}},
	}}
	next := Catalog{Digest: "2", Sources: []CatalogSource{
		{Name: "files", Tools: []ToolRef{{"find", "f1"}, {"list", "l1"}, {"read", "r2"}}},
		{Name: "same", Tools: []ToolRef{{"y", "y1"}}},
		{Name: "web", Tools: []ToolRef{{"fetch", "w1"}}},
	}}
	want := []ToolCatalogChanged{
		{Source: "files", Added: []ToolRef{{"find", "f1"}}, Removed: []string{"write"}, Changed: []ToolRef{{"read", "r2"}}, Digest: "2"},
		{Source: "web", Added: []ToolRef{{"fetch", "w1"}}, Digest: "2"},
		{Source: "gone", Removed: []string{"x"}, Digest: "2"},
	}
	if diff := cmp.Diff(want, old.Changes(next)); diff != "" {
		t.Errorf("changes (-want +got):\n%s", diff)
	}
	if got := next.Changes(next); got != nil {
		t.Errorf("changes to the same catalog: %v", got)
	}
	for _, from := range []Catalog{none, old, next} {
		for _, to := range []Catalog{old, next} {
			got := from
			for _, c := range from.Changes(to) {
				got = got.With(c)
			}
			if diff := cmp.Diff(toolsBySource(to), toolsBySource(got)); diff != "" || got.Digest != to.Digest {
				t.Errorf("from %q to %q (-want +got):\n%s", from.Digest, to.Digest, diff)
			}
		}
	}
}

// toolsBySource leaves out sources without tools.
func toolsBySource(c Catalog) map[string][]ToolRef {
	out := map[string][]ToolRef{}
	for _, s := range c.Sources {
		if len(s.Tools) > 0 {
			out[s.Name] = s.Tools
		}
	}
	return out
}

func TestATombstoneDescribesTheDeletion(t *testing.T) {
	t.Parallel()
	e := sampleEntry(SessionDeleted{By: "ada", Reason: "asked to"})
	d, ok := DeletionOf(e)
	want := Deletion{By: "ada", Reason: "asked to", At: e.At, Entries: e.Seq - 1, Last: e.Prev}
	if !ok || d != want {
		t.Errorf("DeletionOf = %+v, %t, want %+v", d, ok, want)
	}
	where := " at " + e.At.String()
	tail := ": 41 entries, last hash " + e.Prev.String()
	d.Entries = 41
	if got := d.String(); got != "was deleted"+where+" by ada (claimed) (asked to)"+tail {
		t.Errorf("String = %q", got)
	}
	if got := (Deletion{Expired: true, At: e.At, Entries: 41, Last: e.Prev}).String(); got != "expired and was deleted"+where+tail {
		t.Errorf("String = %q", got)
	}
	for _, other := range []Entry{sampleEntry(Parked{}), sampleEntry(), {Events: []Event{SessionDeleted{}}}} {
		if _, ok := DeletionOf(other); ok {
			t.Errorf("%v is a tombstone", other.Kinds())
		}
	}
}
