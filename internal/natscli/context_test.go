package natscli

import (
	"errors"
	"net"
	"slices"
	"testing"

	"github.com/nats-io/nats.go"
)

func TestAnUnknownContextIsAnError(t *testing.T) {
	env := newEnvironment(t)
	env.context(t, "dev", `{}`, false)
	_, err := dial(t, env.flags(t, "--context", "prod"))
	wantError(t, err, []string{`context "prod" is unknown`, "nats context ls"})
	_, err = dial(t, env.flags(t, "--context", "../context/dev"))
	wantError(t, err, []string{`context "../context/dev" is unknown`})
	_, err = dial(t, &Flags{Context: "dev"})
	wantError(t, err, []string{"HOME is not set"})
}

func TestAnUnsupportedContextIsAnError(t *testing.T) {
	_, url := serve(t)
	for _, c := range []struct{ body, says string }{
		{`{"url":"` + url + `","jetstream_domain":"hush"}`, "sets nsc, user_jwt or a JetStream domain"},
		{`{"url":"` + url + `","creds":"/no/such/hush"}`, "no such file"},
		{`{"url":"nats://h","password":12345}`, "password of type string"},
		{`{"url":"http://hush"}`, "is not an address"},
		{``, "unexpected end of JSON"},
	} {
		env := newEnvironment(t)
		env.context(t, "dev", c.body, true)
		_, err := dial(t, env.flags(t))
		wantError(t, err, []string{`context "dev"`, c.says}, "12345")
	}
}

func TestAContextWithoutAURLMeansTheDefaultServer(t *testing.T) {
	env := newEnvironment(t)
	env.context(t, "dev", `{"description":"d"}`, true)
	f := env.flags(t).merged()
	var servers []string
	stop := errors.New("stop")
	_, err := f.open(func(o *nats.Options) error {
		if err := f.apply(o); err != nil {
			return err
		}
		servers = o.Servers
		return stop
	})
	if !errors.Is(err, stop) || !slices.Equal(servers, []string{nats.DefaultURL}) {
		t.Errorf("servers = %q, %v", servers, err)
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

func TestConnectionsGoThroughAContextsProxyOrTheGivenDialer(t *testing.T) {
	_, url := serve(t)
	env := newEnvironment(t)
	env.context(t, "dev", `{"url":"`+url+`","socks_proxy":"socks5://127.0.0.1:1"}`, true)
	f := env.flags(t)
	_, err := dial(t, f)
	wantError(t, err, []string{"no server answers", "127.0.0.1:1"})
	var dialed []string
	f.Dial = func(network, address string) (net.Conn, error) {
		dialed = append(dialed, address)
		return (&net.Dialer{}).DialContext(t.Context(), network, address)
	}
	if _, err := dial(t, f); err != nil || len(dialed) != 1 || "nats://"+dialed[0] != url {
		t.Errorf("Connect = %v, dialed %q", err, dialed)
	}
}
