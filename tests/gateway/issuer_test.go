package gateway

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/turnlog/turnlog/gateway"
	"github.com/turnlog/turnlog/gateway/people"
	"github.com/turnlog/turnlog/internal/testing/issuertest"
)

// issuer is a provider of OpenID Connect without a network.
type issuer struct {
	*issuertest.Issuer

	pipe *pipes
}

func newIssuer(t testing.TB) *issuer {
	t.Helper()
	p := &issuer{issuertest.New(t, "http://127.0.0.1:9000"), newPipes()}
	srv := &http.Server{Handler: p, ReadHeaderTimeout: time.Minute}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = srv.Serve(p.pipe)
	}()
	t.Cleanup(func() { _ = srv.Close(); <-ended })
	return p
}

// admits configures a gateway to admit people of the provider, and one person with a token.
func (p *issuer) admits(t testing.TB, more ...string) func(*gateway.Config) {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{"key": strings.Repeat("k", 44) + "\n" + strings.Repeat("j", 44), "secret": issuertest.Secret + "\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	entry, err := people.Entry(people.Person{Name: "ops", Role: people.Operator}, tokenOf("ops"))
	if err != nil {
		t.Fatal(err)
	}
	file := entry + `oidc:
  issuer: ` + p.URL + `
  client: turnlog
  secret: secret
  key: key
  url: http://127.0.0.1:8410
  claim: realm_access.roles
  roles:
    - {value: reviewers, role: approver, agents: ["review-*"]}
    - {value: writers, role: user}
`
	for i := 0; i < len(more); i += 2 {
		file = strings.Replace(file, more[i], more[i+1], 1)
	}
	return func(c *gateway.Config) {
		c.Access = people.Access{
			People: []byte(file), Dir: dir, Loopback: true, HTTP: &http.Transport{DialContext: p.pipe.dial, DisableKeepAlives: true},
		}
	}
}
