package embedded

import (
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
)

func TestSettingsInTheServersSyntax(t *testing.T) {
	t.Parallel()
	s, err := Start(t.Context(), WithSettings(`authorization { users: [ { user: ann, password: p, permissions: { publish: "a.>" } } ] }`))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	if _, err := s.Connect(); err == nil {
		t.Error("a stranger was let in")
	}
	nc, err := s.Connect(nats.UserInfo("ann", "p"))
	if err != nil {
		t.Fatal(err)
	}
	nc.Close()
	for say, opts := range map[string][]Option{
		"settings of nats-server":  {WithSettings("authorization {")},
		"no_such_setting":          {WithSettings("no_such_setting: 1")},
		"name the user there":      {WithSettings("debug: false"), WithUser("ann", "p")},
		"settings of nats-server:": {WithSettings("port: many")},
	} {
		if err := Check(opts...); err == nil || !strings.Contains(err.Error(), say) {
			t.Errorf("Check = %v, want %q", err, say)
		}
	}
}
