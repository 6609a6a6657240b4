package logfield

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

type name string

// Dashboards and searches rely on these names.
func TestFieldNamesAndValues(t *testing.T) {
	enc := zapcore.NewMapObjectEncoder()
	for _, f := range []zap.Field{
		Session(name("s-1")), Call("t2-r3-c1"), Attempt(2), Seq(17), Cause("cmd-9"), Node("n"), Queue("q"),
		Tool("fs_read_file"), Elapsed(time.Second),
	} {
		f.AddTo(enc)
	}
	want := map[string]any{
		"session": "s-1", "call": "t2-r3-c1", "attempt": int64(2), "seq": uint64(17), "cause": "cmd-9", "node": "n", "queue": "q",
		"tool": "fs_read_file", "elapsed": time.Second,
	}
	if diff := cmp.Diff(want, enc.Fields); diff != "" {
		t.Errorf("fields (-want +got):\n%s", diff)
	}
}
