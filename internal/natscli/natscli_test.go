package natscli

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"go.uber.org/zap"

	"github.com/turnlog/turnlog/embedded"
)

// environment is a home directory and variables that tests do not share.
type environment map[string]string

func newEnvironment(t *testing.T) environment {
	t.Helper()
	return environment{"HOME": t.TempDir()}
}

// context writes a context file, and selects it if sel is set.
func (e environment) context(t *testing.T, name, body string, sel bool) {
	t.Helper()
	dir := filepath.Join(e["HOME"], ".config", "nats")
	if x := e["XDG_CONFIG_HOME"]; x != "" {
		dir = filepath.Join(x, "nats")
	}
	write(t, filepath.Join(dir, "context", name+".json"), body)
	if sel {
		write(t, filepath.Join(dir, "context.txt"), name+"\n")
	}
}

// flags parses args as a command would.
func (e environment) flags(t *testing.T, args ...string) *Flags {
	t.Helper()
	var f Flags
	fs := flagSet{}
	f.Register(fs, func(k string) string { return e[k] })
	for i := 0; i+1 < len(args); i += 2 {
		fl, ok := fs[strings.TrimLeft(args[i], "-")]
		if !ok {
			t.Fatalf("flag %s is not registered", args[i])
		}
		*fl.value = args[i+1]
	}
	return &f
}

// flagSet is as much of pflag as these tests need.
type flagSet map[string]registered

type registered struct {
	value         *string
	preset, usage string
}

func (fs flagSet) StringVarP(p *string, name, shorthand, value, usage string) {
	*p = value
	fs[name] = registered{p, value, usage}
	if shorthand != "" {
		fs[shorthand] = fs[name]
	}
}

func write(t *testing.T, file, body string) string {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(body), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// serve starts a server with a listener and returns its URL.
func serve(t *testing.T, opts ...embedded.Option) (*embedded.Server, string) {
	t.Helper()
	s, err := embedded.Start(t.Context(), append(opts, embedded.WithListener("127.0.0.1:0"))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s, s.ClientURL()
}

// dial connects with a time limit, and closes the connection when the test ends.
func dial(t *testing.T, f *Flags) (*nats.Conn, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	nc, err := f.Connect(ctx, "test", zap.NewNop())
	if err == nil {
		t.Cleanup(nc.Close)
	}
	return nc, err
}

// wantError checks that err is one line with each of the texts and none of the secrets.
func wantError(t *testing.T, err error, says []string, secrets ...string) {
	t.Helper()
	if err == nil {
		t.Fatalf("no error, want one that says %q", says)
	}
	if strings.Contains(err.Error(), "\n") {
		t.Errorf("error has more than one line: %q", err)
	}
	for _, s := range says {
		if !strings.Contains(err.Error(), s) {
			t.Errorf("error %q does not say %q", err, s)
		}
	}
	for _, s := range secrets {
		if strings.Contains(err.Error(), s) {
			t.Errorf("error %q contains the secret %q", err, s)
		}
	}
}

func TestConnectFindsTheServer(t *testing.T) {
	_, url := serve(t)
	for _, c := range []struct {
		name string
		args []string
		env  func(environment)
	}{
		{name: "flag", args: []string{"--server", url}},
		{name: "short flag without scheme", args: []string{"-s", strings.TrimPrefix(url, "nats://")}},
		{name: "one of two", args: []string{"-s", "nats://127.0.0.1:1, " + url}},
		{name: "environment", env: func(e environment) { e["NATS_URL"] = url }},
		{name: "context", args: []string{"--context", "dev"}, env: func(e environment) {
			e.context(t, "dev", `{"description":"d","url":"`+url+`"}`, false)
		}},
		{name: "context of the environment", env: func(e environment) {
			e.context(t, "dev", `{"url":"`+url+`"}`, false)
			e["NATS_CONTEXT"] = "dev"
		}},
		{name: "selected context", env: func(e environment) { e.context(t, "dev", `{"url":"`+url+`"}`, true) }},
		{name: "selected context in XDG_CONFIG_HOME", env: func(e environment) {
			e["XDG_CONFIG_HOME"] = t.TempDir()
			e.context(t, "dev", `{"url":"`+url+`"}`, true)
		}},
		{name: "flag over all else", args: []string{"--server", url}, env: func(e environment) {
			e.context(t, "dev", `{"url":"nats://127.0.0.1:1","nsc":"x"}`, true)
			e["NATS_URL"], e["NATS_CONTEXT"] = "nats://127.0.0.1:1", "dev"
		}},
		{name: "flag over the context's", args: []string{"--server", url, "--context", "dev"}, env: func(e environment) {
			e.context(t, "dev", `{"url":"nats://127.0.0.1:1"}`, false)
		}},
	} {
		env := newEnvironment(t)
		if c.env != nil {
			c.env(env)
		}
		nc, err := dial(t, env.flags(t, c.args...))
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if nc.Opts.Name != "test" || nc.Opts.MaxReconnect != -1 || nc.Opts.ReconnectBufSize != -1 {
			t.Errorf("%s: options %q, %d, %d", c.name, nc.Opts.Name, nc.Opts.MaxReconnect, nc.Opts.ReconnectBufSize)
		}
	}
}

func TestHelpDoesNotShowSecretsOfTheEnvironment(t *testing.T) {
	env := newEnvironment(t)
	env["NATS_PASSWORD"], env["NATS_TOKEN"] = "hush", "whisper"
	var f Flags
	fs := flagSet{}
	f.Register(fs, func(k string) string { return env[k] })
	for name, fl := range fs {
		if fl.preset != "" {
			t.Errorf("the help shows %q as the default of --%s", fl.preset, name)
		}
	}
	if usage := fs["password"].usage; !strings.Contains(usage, "[NATS_PASSWORD]") {
		t.Errorf("the help of --password does not name its variable: %q", usage)
	}
}

func TestConnectReportsThatNoServerAnswers(t *testing.T) {
	s, url := serve(t)
	s.Close()
	_, err := dial(t, newEnvironment(t).flags(t, "-s", strings.Replace(url, "//", "//ann:hush@", 1)))
	if !errors.Is(err, ErrNoServer) {
		t.Errorf("Connect = %v, want %v", err, ErrNoServer)
	}
	wantError(t, err, []string{strings.Replace(url, "//", "//xxxxx@", 1), "connection refused", `"turnlog server"`, "--server"}, "ann", "hush")

	_, err = dial(t, newEnvironment(t).flags(t, "-s", url+",nats://no-such-host.invalid"))
	wantError(t, err, []string{url, "no-such-host.invalid", "connection refused", ErrNoServer.Error()})
}

func TestBadServerAddressesAreReportedWithoutSecrets(t *testing.T) {
	for _, c := range []struct{ arg, says string }{
		{"nats://", `"nats://"`},
		{"http://127.0.0.1", `"http://127.0.0.1"`},
		{"nats://ann:hu sh@host:x", "number 1"},
		{"nats://ann:hush,hush@127.0.0.1", "number 1"},
		{",", "no server address"},
		{"localhost:99999", `"localhost:99999"`},
		{"nats://[x:y]:1", `"nats://[x:y]:1"`},
	} {
		_, err := dial(t, newEnvironment(t).flags(t, "-s", c.arg))
		wantError(t, err, []string{c.says, "write it like nats://127.0.0.1:4222"}, "hush", "hu sh")
	}
}

func TestConnectEndsWithItsContext(t *testing.T) {
	gone := errors.New("gone")
	ctx, cancel := context.WithCancelCause(t.Context())
	f := newEnvironment(t).flags(t, "-s", listen(t, func(conn *fakeConn) {
		cancel(gone) // the client is waiting for a greeting
		conn.readLine()
	}))
	if _, err := f.Connect(ctx, "test", zap.NewNop()); !errors.Is(err, gone) {
		t.Errorf("Connect = %v, want the context's cause", err)
	}
}

func TestConnectReportsAServerThatIsNotNATS(t *testing.T) {
	url := listen(t, func(conn *fakeConn) { conn.write("HTTP/1.1 400 Bad Request\r\n\r\n") })
	_, err := dial(t, newEnvironment(t).flags(t, "-s", url))
	wantError(t, err, []string{url, "is that a NATS server?"})
}
