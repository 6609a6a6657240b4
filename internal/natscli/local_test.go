package natscli

import (
	"context"
	"errors"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/turnlog/turnlog/embedded"
)

// guarded starts a server with a token and writes its context.
func guarded(t *testing.T, e environment, listen string) (*embedded.Server, Local) {
	t.Helper()
	token := NewSecret()
	s, err := embedded.Start(t.Context(), embedded.WithListener(listen), embedded.WithToken(token))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	l, err := SaveLocal(func(k string) string { return e[k] }, s.ClientURL(), Login{Token: token})
	if err != nil {
		t.Fatal(err)
	}
	return s, l
}

func TestTheTokenOfAUsersServerIsFound(t *testing.T) {
	e, stranger := newEnvironment(t), newEnvironment(t)
	s, l := guarded(t, e, "127.0.0.1:0")
	at, err := url.Parse(s.ClientURL())
	if err != nil {
		t.Fatal(err)
	}
	for _, server := range []string{s.ClientURL(), at.Host, "localhost:" + at.Port()} {
		if _, err := dial(t, e.flags(t, "--server", server)); err != nil {
			t.Errorf("%s: %v", server, err)
		}
	}
	if _, err := dial(t, e.flags(t, "--context", l.Name)); err != nil {
		t.Errorf("as a context: %v", err)
	}
	for what, f := range map[string]*Flags{
		"another user":      stranger.flags(t, "--server", s.ClientURL()),
		"another token":     e.flags(t, "--server", s.ClientURL(), "--token", "x"),
		"several servers":   e.flags(t, "--server", s.ClientURL()+","+s.ClientURL()),
		"an address's user": e.flags(t, "--server", "nats://ann@"+at.Host),
	} {
		if _, err := dial(t, f); !errors.Is(err, nats.ErrAuthorization) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if info, err := os.Stat(l.File); err != nil || info.Mode() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
}

func TestTheTokenOfAUsersServerStaysOnTheMachine(t *testing.T) {
	e := newEnvironment(t)
	_, l := guarded(t, e, "127.0.0.1:0")
	port := strings.TrimPrefix(l.Name, "turnlog-")
	for host, want := range map[string]bool{"127.0.0.1": true, "localhost": true, "127.0.0.2": false, "[::1]": false, "example.com": false} {
		token, address := e.flags(t).localToken([]string{"nats://" + host + ":" + port})
		if got := token != nil; got != want || got && address != "nats://127.0.0.1:"+port {
			t.Errorf("the token goes to %s: %t, at %q", host, got, address)
		}
	}
}

func TestAConnectionOutlivesItsServersToken(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	e := newEnvironment(t)
	first, old := guarded(t, e, "127.0.0.1:0")
	url := first.ClientURL()
	core, logs := observer.New(zap.DebugLevel)
	nc, err := e.flags(t, "--server", url).Connect(ctx, "test", zap.New(core))
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	first.Close()
	await(ctx, t, logs, "connection lost")
	_, now := guarded(t, e, strings.TrimPrefix(url, "nats://"))
	await(ctx, t, logs, "connection restored")

	if err := errors.Join(old.Remove(), old.Remove()); err != nil {
		t.Errorf("remove what a later server has replaced: %v", err)
	}
	if _, err := os.Stat(now.File); err != nil {
		t.Errorf("the first server removed the second one's context: %v", err)
	}
	if err := errors.Join(now.Remove(), now.Remove()); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(now.File); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the context is still there: %v", err)
	}
}

func TestAUsersPasswordIsKept(t *testing.T) {
	e := newEnvironment(t)
	getenv := func(k string) string { return e[k] }
	if kept, err := KeptPassword(getenv, "4222", "ann"); kept != "" || err != nil {
		t.Errorf("before: %q, %v", kept, err)
	}
	l, err := SaveLocal(getenv, "nats://127.0.0.1:4222", Login{User: "ann", Password: "pw", InboxPrefix: "_INBOX_ann"})
	if err != nil {
		t.Fatal(err)
	}
	if kept, err := KeptPassword(getenv, "4222", "ann"); kept != "pw" || err != nil {
		t.Errorf("after: %q, %v", kept, err)
	}
	if info, err := os.Stat(l.File); err != nil || info.Mode() != 0o600 || l.Name != "turnlog-4222-ann" {
		t.Errorf("%s: %v, %v", l.Name, info, err)
	}
	for _, body := range []string{`{"user":"bob","password":"pw"}`, `{"user":"ann"}`, `{`, ``} {
		e.context(t, "turnlog-4222-ann", body, false)
		if _, err := KeptPassword(getenv, "4222", "ann"); err == nil || !strings.Contains(err.Error(), l.File) {
			t.Errorf("%q: %v", body, err)
		}
	}
	if _, err := KeptPassword(func(string) string { return "" }, "4222", "ann"); err == nil || !strings.Contains(err.Error(), "HOME is not set") {
		t.Errorf("without a home: %v", err)
	}
}

func TestAContextNeedsAHome(t *testing.T) {
	if _, err := SaveLocal(func(string) string { return "" }, "nats://127.0.0.1:4222", Login{Token: "x"}); err == nil || !strings.Contains(err.Error(), "HOME is not set") {
		t.Errorf("SaveLocal = %v", err)
	}
	if _, err := SaveLocal(func(string) string { return "" }, "::", Login{Token: "x"}); err == nil {
		t.Error("no URL")
	}
}
