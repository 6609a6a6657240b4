package embedded

import (
	"errors"
	"syscall"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
)

func TestServerLinesKeepTheirLevel(t *testing.T) {
	core, logs := observer.New(zap.DebugLevel)
	l := newServerLog(zap.New(core))
	l.Noticef("n %d", 1)
	l.Debugf("d %d", 2)
	l.Tracef("t %s", "secret")
	l.Warnf("w %d", 3)
	l.Errorf("e %d", 4)
	l.Fatalf("f %v", syscall.EADDRINUSE)
	l.Fatalf("f %d", 6)

	type line struct{ level, text string }
	want := []line{{"debug", "n 1"}, {"debug", "d 2"}, {"warn", "w 3"}, {"error", "e 4"}, {"debug", "f address already in use"}, {"debug", "f 6"}}
	got := logs.All()
	if len(got) != len(want) {
		t.Fatalf("%d entries, want %d: %v", len(got), len(want), got)
	}
	for i, w := range want {
		if g := (line{got[i].Level.String(), got[i].ContextMap()["line"].(string)}); g != w {
			t.Errorf("entry %d = %v, want %v", i, g, w)
		}
	}
	if err := l.failure(); !errors.Is(err, syscall.EADDRINUSE) || err.Error() != "f address already in use" {
		t.Errorf("failure = %v, want the first fatal line", err)
	}
}

func TestOpenListenerLogsAWarning(t *testing.T) {
	for _, c := range []struct {
		opts []Option
		warn bool
	}{
		{[]Option{WithListener(":0")}, true},
		{[]Option{WithListener("[::]:0")}, true},
		{[]Option{WithListener("127.0.0.1:0")}, false},
		{[]Option{WithListener("[::1]:0")}, false},
		{[]Option{WithListener("localhost:0")}, false},
		{[]Option{WithListener(":0"), WithUser("ann", "pw")}, false},
		{[]Option{WithListener(":0"), WithSettings(`accounts: { a: { users: [ { user: ann, password: pw } ] } }`)}, false},
		{[]Option{WithListener(":0"), WithSettings(`max_payload: 1MB`)}, true},
		{nil, false},
	} {
		core, logs := observer.New(zap.WarnLevel)
		cfg, err := configure(append(c.opts, WithLogger(zap.New(core))))
		if err != nil {
			t.Fatal(err)
		}
		warnIfOpen(cfg)
		if got := logs.Len() > 0; got != c.warn {
			t.Errorf("listener %v: warned %v, want %v", cfg.listen, got, c.warn)
		}
	}
}

func TestStartAndStopLogNoWarnings(t *testing.T) {
	core, logs := observer.New(zap.WarnLevel)
	s, err := Start(t.Context(), WithLogger(zap.New(core)), WithStore(t.TempDir()),
		WithListener("127.0.0.1:0"), WithUser("ann", "pw"))
	if err != nil {
		t.Fatal(err)
	}
	connect(t, s)
	s.Close()
	for _, e := range logs.All() {
		t.Errorf("logged %v %v", e.Entry, e.ContextMap())
	}
}
