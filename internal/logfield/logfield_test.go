package logfield

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

type (
	name  string
	count uint64
)

// The names are what dashboards and searches rely on: changing one breaks them.
func TestFieldNamesAndValues(t *testing.T) {
	enc := zapcore.NewMapObjectEncoder()
	for _, f := range []zap.Field{
		Session(name("s-1")), Turn(name("turn-2")), Round(3), Call("t2-r3-c1"), Attempt(int32(2)),
		Seq(count(17)), Epoch(uint32(4)), Cause("cmd-9"), Node("n"), Worker("w"), Queue("q"),
		Tool("fs_read_file"), Subject("a.b"), Stream("JOURNAL"), Elapsed(time.Second),
	} {
		f.AddTo(enc)
	}
	want := map[string]any{
		"session": "s-1", "turn": "turn-2", "round": int64(3), "call": "t2-r3-c1", "attempt": int64(2),
		"seq": uint64(17), "epoch": uint64(4), "cause": "cmd-9", "node": "n", "worker": "w", "queue": "q",
		"tool": "fs_read_file", "subject": "a.b", "stream": "JOURNAL", "elapsed": time.Second,
	}
	if diff := cmp.Diff(want, enc.Fields); diff != "" {
		t.Errorf("fields (-want +got):\n%s", diff)
	}
}
