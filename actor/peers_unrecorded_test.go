package actor_test

import (
	"encoding/json"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/turnlog/turnlog/events"
)

// freezeRecords has the server refuse what nodes write of themselves, as it does while
// that has no leader; what is there can still be read.
func (w *world) freezeRecords() {
	w.t.Helper()
	const api, stream = "$JS.API.STREAM.", "KV_TURNLOG_NODES"
	said, err := w.connect().RequestWithContext(w.ctx, api+"INFO."+stream, nil)
	if err != nil {
		w.t.Fatal(err)
	}
	var info struct {
		Config map[string]any `json:"config"`
	}
	if err := json.Unmarshal(said.Data, &info); err != nil || info.Config == nil {
		w.t.Fatalf("settings of %s: %s, %v", stream, said.Data, err)
	}
	info.Config["max_msg_size"] = 1
	changed, err := json.Marshal(info.Config)
	if err != nil {
		w.t.Fatal(err)
	}
	if said, err = w.connect().RequestWithContext(w.ctx, api+"UPDATE."+stream, changed); err != nil {
		w.t.Fatal(err)
	}
	var answer struct {
		Error *struct{ Description string }
	}
	if err := json.Unmarshal(said.Data, &answer); err != nil || answer.Error != nil {
		w.t.Fatalf("settings of %s were not changed: %s, %v", stream, said.Data, err)
	}
}

// TestWhatANodeCouldNotRecordIsHandedOn: the others were told when they asked whether it
// lives.
func TestWhatANodeCouldNotRecordIsHandedOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		nodes := map[string]*node{"n1": w.node("n1"), "n2": w.node("n2"), "n3": w.node("n3")}
		<-time.After(time.Second) // their first records are written
		w.freezeRecords()
		s := w.start("s", anHour)
		w.submit(s, "go")
		w.until("s", events.KindModelCallStarted)
		<-time.After(2 * time.Second)
		first := w.owners("s")[0]
		nodes[first].crash(t)
		delete(nodes, first)
		<-time.After(3 * time.Second)
		took := w.owners("s")
		if len(took) != 2 || took[1] == first {
			t.Errorf("driven by %v 3 s after the crash of %s", took, first)
		}
		<-time.After(5 * time.Second) // the dead node's record is still there, and theirs lack the session
		if got := w.owners("s"); !slices.Equal(got, took) {
			t.Errorf("driven by %v later on: it was taken from who has it", got)
		}
		for _, n := range nodes {
			n.drain(t)
		}
	})
}
