package torture

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/turnlog/turnlog/embedded"
	"github.com/turnlog/turnlog/internal/natscli"
)

func TestARunThatIsGivenUpEarlyLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	srv, err := embedded.Start(t.Context(), embedded.WithListener("127.0.0.1:0"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(srv.Close)
	nc, err := srv.Connect()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	ctx, giveUp := context.WithCancel(t.Context())
	t.Cleanup(giveUp)
	if _, err := nc.Subscribe("$JS.EVENT.ADVISORY.STREAM.CREATED.*", func(*nats.Msg) { giveUp() }); err != nil {
		t.Fatal(err)
	}
	r, err := Run(ctx, Config{
		Seed: 1, Duration: time.Minute, Sessions: 1, Nodes: 1, Workers: 1, Dir: t.TempDir(),
		Servers: &natscli.Flags{Server: srv.ClientURL()}, Kinds: []Kind{ConnectionsCut},
	})
	if err == nil {
		t.Errorf("Run = %+v although it was given up while it set up its streams", r)
	}
	names, err := nc.RequestWithContext(t.Context(), "$JS.API.STREAM.NAMES", nil)
	if err != nil || strings.Contains(strings.ToLower(string(names.Data)), "torture") {
		t.Errorf("streams are left: %s, %v", names.Data, err)
	}
}
