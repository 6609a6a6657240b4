package webhooks

import (
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestEndpointsOfAFile(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "secret")
	must(t, os.WriteFile(file, []byte(secretOf(1)+"\n"+secretOf(2)+"\n"), 0o600))
	env := func(name string) string { return map[string]string{"GOOD": secretOf(3), "BAD": "whsec_c2hvcnQ="}[name] }
	got, err := Parse([]byte(`
endpoints:
  - {name: a, url: "https://a.example/x", secret_file: "`+file+`", events: [turn.finished], agents: [rev*], sessions: [s-*], details: true}
  - {name: b, url: "http://10.1.2.3/x", secret_env: GOOD, private: [10.1.0.0/16, "::1"]}
`), env)
	must(t, err)
	keys, err := got[0].Secrets()
	must(t, err)
	if len(got) != 2 || len(keys) != 2 || !got[0].Details || !slices.Equal(got[0].Types, []Type{TurnFinished}) ||
		!slices.Equal(got[1].Private, []netip.Prefix{netip.MustParsePrefix("10.1.0.0/16"), netip.MustParsePrefix("::1/128")}) {
		t.Errorf("endpoints = %+v, %d keys", got, len(keys))
	}
	for text, want := range map[string]string{
		"":                                  "the file is empty",
		"whsec_c2hvcnQ=":                    "mapping is expected", // the wrong file: it is not shown
		"endpoints: []":                     "the list is empty",
		"endpoints: [{name: a, secret: x}]": "unknown field",
		"endpoints: [{url: https://a.example, secret_env: GOOD}]":                                                               "endpoint 1: name",
		"endpoints: [{name: a, url: ftp://a.example, secret_env: GOOD}]":                                                        "write it like https://",
		"endpoints: [{name: a, url: http://a.example, secret_env: GOOD}]":                                                       "use https",
		"endpoints: [{name: a, url: 'https://u:p@a.example', secret_env: GOOD}]":                                                "remove the password",
		"endpoints: [{name: a, url: https://a.example}]":                                                                        "one of secret_file and secret_env",
		"endpoints: [{name: a, url: https://a.example, secret_env: GOOD, secret_file: x}]":                                      "one of secret_file and secret_env",
		"endpoints: [{name: a, url: https://a.example, secret_env: BAD}]":                                                       "secret_env BAD: secret 1",
		"endpoints: [{name: a, url: https://a.example, secret_env: NONE}]":                                                      "the secret is missing",
		"endpoints: [{name: a, url: https://a.example, secret_file: /nowhere}]":                                                 "secret_file: ",
		"endpoints: [{name: a, url: https://a.example, secret_env: GOOD, events: [turn.ended]}]":                                "use approval.needed",
		"endpoints: [{name: a, url: https://a.example, secret_env: GOOD, private: [ten]}]":                                      "10.1.0.0/16",
		"endpoints: [{name: a, url: https://a.example, secret_env: GOOD}, {name: a, url: https://b.example, secret_env: GOOD}]": "another endpoint has this name",
	} {
		if _, err := Parse([]byte(text), env); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "c2hvcnQ") {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}
