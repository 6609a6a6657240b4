package natscli

import (
	"errors"
	"maps"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/nats-io/nkeys"

	"github.com/turnlog/turnlog/embedded"
)

func TestCredentialsReachTheServer(t *testing.T) {
	user, err := nkeys.CreateUser()
	if err != nil {
		t.Fatal(err)
	}
	seed, err := user.Seed()
	if err != nil {
		t.Fatal(err)
	}
	public, err := user.PublicKey()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	nkey := write(t, filepath.Join(dir, "user.nk"), string(seed))
	creds := write(t, filepath.Join(dir, "user.creds"), "-----BEGIN NATS USER JWT-----\na.b.c\n------END NATS USER JWT------\n\n"+
		"-----BEGIN USER NKEY SEED-----\n"+string(seed)+"\n------END USER NKEY SEED------\n")

	for _, c := range []struct {
		name string
		args []string
		env  map[string]string
		file string // a context that is selected
		want hello
	}{
		{name: "user", args: []string{"--user", "ann", "--password", "pw"}, want: hello{User: "ann", Pass: "pw"}},
		{name: "user alone", args: []string{"--user", "tok"}, want: hello{Auth: "tok"}},
		{name: "token", args: []string{"--token", "tok"}, want: hello{Auth: "tok"}},
		{name: "nkey", args: []string{"--nkey", nkey}, want: hello{NKey: public}},
		{name: "creds", args: []string{"--creds", creds}, want: hello{JWT: "a.b.c"}},
		{name: "environment", env: map[string]string{"NATS_CREDS": creds}, want: hello{JWT: "a.b.c"}},
		{
			name: "flags over the environment", args: []string{"--token", "tok"},
			env: map[string]string{"NATS_USER": "ann", "NATS_PASSWORD": "pw"}, want: hello{Auth: "tok"},
		},
		{name: "context", file: `"user":"ann","password":"pw"`, want: hello{User: "ann", Pass: "pw"}},
		{name: "context with a credentials file", file: `"creds":"` + creds + `"`, want: hello{JWT: "a.b.c"}},
		{
			name: "environment over the selected context", file: `"user":"ann","password":"pw"`,
			env: map[string]string{"NATS_TOKEN": "tok"}, want: hello{Auth: "tok"},
		},
	} {
		url, said := greet(t)
		env := newEnvironment(t)
		maps.Copy(env, c.env)
		args := c.args
		if c.file != "" {
			env.context(t, "dev", `{"url":"`+url+`",`+c.file+`}`, true)
		} else {
			args = append(args, "--server", url)
		}
		if _, err := dial(t, env.flags(t, args...)); err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		got := hear(t, said)
		c.want.Name = "test"
		if diff := cmp.Diff(c.want, got, cmpopts.IgnoreFields(hello{}, "Sig")); diff != "" {
			t.Errorf("%s: (-want +got):\n%s", c.name, diff)
		}
		if signed := c.want.NKey+c.want.JWT != ""; signed != (got.Sig != "") {
			t.Errorf("%s: signed %v, want %v", c.name, got.Sig != "", signed)
		}
	}
}

// A named context is complete, and the selected one is for its own server: neither may
// send credentials elsewhere.
func TestCredentialsGoOnlyToTheirServer(t *testing.T) {
	url, said := greet(t)
	env := newEnvironment(t)
	env.context(t, "prod", `{"url":"nats://127.0.0.1:1","token":"hush"}`, true)
	if _, err := dial(t, env.flags(t, "--server", url)); err != nil {
		t.Fatal(err)
	}
	if got := hear(t, said); got.Auth != "" {
		t.Errorf("the selected context's token %q went to another server", got.Auth)
	}

	url, said = greet(t)
	env = newEnvironment(t)
	env.context(t, "plain", `{"url":"`+url+`"}`, false)
	env["NATS_TOKEN"], env["NATS_URL"] = "hush", "nats://127.0.0.1:1"
	if _, err := dial(t, env.flags(t, "--context", "plain")); err != nil {
		t.Fatal(err)
	}
	if got := hear(t, said); got.Auth != "" {
		t.Errorf("the environment's token %q went to a context's server", got.Auth)
	}
}

func TestRejectedCredentialsAreReported(t *testing.T) {
	_, url := serve(t, embedded.WithUser("ann", "right"))
	for _, c := range []struct {
		args []string
		says string
	}{
		{nil, "it requires credentials: give --creds"},
		{[]string{"--user", "ann", "--password", "hush"}, "does not accept these credentials"},
		{[]string{"--token", "hush"}, "does not accept these credentials"},
		{[]string{"-s", strings.Replace(url, "//", "//ann:hush@", 1)}, "does not accept these credentials"},
	} {
		_, err := dial(t, newEnvironment(t).flags(t, append([]string{"-s", url}, c.args...)...))
		wantError(t, err, []string{"Authorization Violation", c.says}, "hush")
	}
	env := newEnvironment(t)
	env.context(t, "dev", `{"url":"`+url+`","user":"ann","password":"hush"}`, true)
	_, err := dial(t, env.flags(t))
	wantError(t, err, []string{`context "dev"`, "does not accept these credentials"}, "hush")
	if _, err := dial(t, newEnvironment(t).flags(t, "-s", url, "--user", "ann", "--password", "right")); err != nil {
		t.Errorf("the right password: %v", err)
	}
}

func TestContradictingCredentialsAreReported(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "missing")
	for _, c := range []struct {
		args []string
		says []string
	}{
		{[]string{"--token", "hush", "--creds", missing}, []string{"a credentials file and a token at once", "give one"}},
		{[]string{"--token", "hush", "--user", "ann"}, []string{"a user and a token at once"}},
		{[]string{"--password", "hush"}, []string{"a password without a user", "--user"}},
		{[]string{"--tlscert", missing}, []string{"--tlscert and --tlskey"}},
		{[]string{"--creds", missing}, []string{missing, "no such file"}},
		{[]string{"--nkey", missing}, []string{missing, "no such file"}},
		{[]string{"--nkey", write(t, missing+"2", "hush")}, []string{missing + "2", "key in"}},
		{[]string{"--tlsca", missing}, []string{missing, "no such file"}},
	} {
		_, err := dial(t, newEnvironment(t).flags(t, c.args...))
		wantError(t, err, append(c.says, "connect to NATS: "), "hush")
		if !errors.Is(err, ErrSettings) {
			t.Errorf("%q: %v is not ErrSettings", c.args, err)
		}
	}
}
