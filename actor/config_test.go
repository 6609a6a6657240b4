package actor

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/model"
)

func TestInvalidNodeConfigIsRefused(t *testing.T) {
	t.Parallel()
	models := func(string, []byte) (model.Model, error) { return nil, nil }
	for want, cfg := range map[string]Config{
		"Models is required": {},
		"Capacity -1":        {Models: models, Capacity: -1},
		`Name "a b"`:         {Models: models, Name: "a b"},
	} {
		if n, err := NewNode(nil, cfg); n != nil || err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("NewNode = %v, want an error with %q", err, want)
		}
	}
}

func TestClientsCanOnlyAddRegistrations(t *testing.T) {
	t.Parallel()
	own := events.Registration{Name: "guard", Points: []string{"post_llm_call"}}
	added := events.Registration{Name: "log", Points: []string{"session_end"}}
	a := agentRuntime{digest: "d", own: ownConfig{Hooks: []events.Registration{own}}}
	c := events.Config{Digest: "the client's", Hooks: []events.Registration{{Name: "guard"}, added}}
	a.register(&c)
	if diff := cmp.Diff(events.Config{Digest: "d", Hooks: []events.Registration{own, added}}, c); diff != "" {
		t.Errorf("configuration (-want +got):\n%s", diff)
	}
}
