package natscli

import (
	"errors"
	"os"
	"testing"
)

func readFile(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestUnknownContextListsTheKnownOnes(t *testing.T) {
	env := newEnvironment(t)
	_, err := dial(t, env.flags(t, "--context", "prod"))
	wantError(t, err, []string{`context "prod" is unknown`, "there are none", "nats context add"})
	env.context(t, "dev", `{}`, false)
	env.context(t, "stage", `{}`, false)
	_, err = dial(t, env.flags(t, "--context", "prod"))
	wantError(t, err, []string{`context "prod" is unknown`, "known are dev, stage"})
	_, err = dial(t, env.flags(t, "--context", "../context/dev"))
	wantError(t, err, []string{"is not a name", "known are dev, stage"})
	_, err = dial(t, &Flags{Context: "dev"})
	wantError(t, err, []string{"HOME is not set"})
}

func TestContextsThatCannotBeFollowedAreRefused(t *testing.T) {
	for _, c := range []struct {
		body string
		says string
	}{
		{`{"url":"nats://h","nsc":"nsc://hush"}`, "it sets nsc"},
		{`{"url":"nats://h","socks_proxy":"hush"}`, "it sets socks_proxy"},
		{`{"url":"nats://h","jetstream_domain":"hush"}`, "it sets jetstream_domain"},
		{`{"url":"nats://h","token":"op://hush"}`, "its token is only a reference (op:)"},
		{`{"url":"nats://h","creds":"env:hush"}`, "its creds is only a reference (env:)"},
		{`{"url":"nats://h","password":12345hush}`, "byte 35"},
		{`{"url":"nats://h","password":12345}`, "password is not a string"},
		{``, "no valid context"},
	} {
		env := newEnvironment(t)
		env.context(t, "dev", c.body, true)
		_, err := dial(t, env.flags(t))
		wantError(t, err, []string{`context "dev"`, c.says}, "hush", "12345")
	}
}

func TestContextSetsTheInboxPrefix(t *testing.T) {
	_, url := serve(t)
	env := newEnvironment(t)
	env.context(t, "dev", `{"url":"`+url+`","inbox_prefix":"_INBOX_ann"}`, true)
	nc, err := dial(t, env.flags(t))
	if err != nil {
		t.Fatal(err)
	}
	if nc.Opts.InboxPrefix != "_INBOX_ann" {
		t.Errorf("inbox prefix = %q", nc.Opts.InboxPrefix)
	}
}

func TestTheFlagForTheInboxPrefixWinsOverTheContext(t *testing.T) {
	_, url := serve(t)
	env := newEnvironment(t)
	env.context(t, "dev", `{"url":"`+url+`","inbox_prefix":"_INBOX_ann"}`, true)
	nc, err := dial(t, env.flags(t, "--inbox-prefix", "_INBOX_bob"))
	if err != nil {
		t.Fatal(err)
	}
	if nc.Opts.InboxPrefix != "_INBOX_bob" {
		t.Errorf("inbox prefix = %q", nc.Opts.InboxPrefix)
	}
	for _, bad := range []string{"_INBOX.*", "_INBOX.>", "_INBOX.", "_IN BOX"} {
		if _, err := dial(t, env.flags(t, "--inbox-prefix", bad)); !errors.Is(err, ErrSettings) {
			t.Errorf("inbox prefix %q: %v", bad, err)
		}
	}
}
