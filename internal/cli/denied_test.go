package cli

import (
	"strings"
	"testing"
	"time"

	"github.com/turnlog/turnlog/embedded"
)

// A request that is not permitted gets no answer: it must not look like a server that
// is slow.
func TestADenialIsReportedAtOnce(t *testing.T) {
	t.Parallel()
	s, err := embedded.Start(t.Context(), embedded.WithListener("127.0.0.1:0"), embedded.WithSettings(`authorization { users: [
		{ user: mute, password: p, permissions: { publish: { allow: "nothing" } } }
		{ user: deaf, password: p, permissions: { subscribe: { allow: "_INBOX_deaf.>" } } }
	] }`))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	for user, want := range map[string][]string{
		"mute": {`publish to "$JS.API.STREAM.INFO.`, "turnlog permissions"},
		"deaf": {`hear "_INBOX.`, "--inbox-prefix"},
	} {
		for _, provisions := range []bool{true, false} {
			began := time.Now()
			_, err := open(t, provisions, nil, "--server", s.ClientURL(), "--user", user, "--password", "p")
			if took := time.Since(began); took > 30*time.Second {
				t.Errorf("Open as %s took %v, want that it does not wait for answers", user, took)
			}
			if said := err != nil && strings.Contains(err.Error(), "--provision=false"); said != provisions {
				t.Errorf("Open as %s = %v: only a user who may read all streams can omit that", user, err)
			}
			for _, text := range want {
				if err == nil || !strings.Contains(err.Error(), text) {
					t.Errorf("Open as %s = %v, want %s", user, err, text)
				}
			}
		}
	}
}
