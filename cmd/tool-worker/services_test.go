package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/embedded"
	"github.com/turnlog/turnlog/internal/cli"
	"github.com/turnlog/turnlog/jetstream"
	"github.com/turnlog/turnlog/jetstream/admin"
)

const words = `{"type":"object","properties":{"text":{"type":"string"}}}`

// addWords adds the microservice words, which counts, reports its progress and says what key it got.
func addWords(t *testing.T, nc *nats.Conn) {
	t.Helper()
	s, err := micro.AddService(nc, micro.Config{Name: "words", Version: "1.0.0"})
	if err == nil {
		err = s.AddGroup("words").AddEndpoint("count", micro.HandlerFunc(func(r micro.Request) {
			_ = r.Respond([]byte("counting"), micro.WithHeaders(micro.Headers{"Turnlog-Progress": {"0.5"}}))
			_ = r.Respond([]byte("got " + r.Headers().Get("Idempotency-Key")))
		}), micro.WithEndpointMetadata(map[string]string{"description": "Counts words.", "input": words, "effects": "read_only"}))
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestAWorkerCallsAMicroservice uses exactly the permissions that are printed for the worker and the service.
func TestAWorkerCallsAMicroservice(t *testing.T) {
	t.Parallel()
	users := []admin.User{
		{Name: "cell", Grant: admin.Grant{Roles: []admin.Role{admin.RoleDriver, admin.RoleProvisioner}, Inbox: "_INBOX_cell"}},
		{Name: "worker", Grant: admin.Grant{Roles: []admin.Role{admin.RoleWorker}, Queue: "default", Services: []string{"words"}, Inbox: "_INBOX_worker"}},
		{Name: "service", Grant: admin.Grant{Roles: []admin.Role{admin.RoleService}, Queue: "default", Services: []string{"words"}, Inbox: "_INBOX_service"}},
	}
	for name, settings := range map[string]func() (string, error){
		"accounts": func() (string, error) {
			accounts, err := admin.Accounts(users)
			if err != nil {
				return "", err
			}
			return admin.AccountsConf(accounts, func(u admin.User) string { return "user: " + u.Name + ", password: p" })
		},
		"one account": func() (string, error) {
			var b strings.Builder
			for _, u := range users {
				p, err := admin.PermissionsOf(u.Grant)
				if err != nil {
					return "", err
				}
				fmt.Fprintf(&b, "{ user: %s, password: p\n%s}\n", u.Name, p.Conf())
			}
			return "authorization { users: [" + b.String() + "] }", nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			conf, err := settings()
			if err != nil {
				t.Fatal(err)
			}
			s, err := embedded.Start(t.Context(), embedded.WithListener("127.0.0.1:0"), embedded.WithSettings(conf))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(s.Close)
			denials := make(chan error, 10)
			connect := func(user string) *nats.Conn {
				nc, err := nats.Connect(s.ClientURL(), nats.UserInfo(user, "p"), nats.CustomInboxPrefix("_INBOX_"+user),
					nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { denials <- err }))
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(nc.Close)
				return nc
			}
			cell, err := jetstream.Open(connect("cell"), "")
			if err != nil {
				t.Fatal(err)
			}
			if err := admin.Of(cell).Provision(t.Context(), admin.Config{}); err != nil {
				t.Fatal(err)
			}
			if err := admin.Of(cell).EnsureQueue(t.Context(), admin.QueueConfig{Name: "default"}); err != nil {
				t.Fatal(err)
			}
			d := &deployment{t: t, url: s.ClientURL(), cell: cell}
			service := connect("service")
			addWords(t, service)
			w := d.start("--tools", "none", "--nats-service", "words", "--provision=false", "--user", "worker", "--password", "p", "--inbox-prefix", "_INBOX_worker")
			d.eventually("the service's tool is on offer", func(ctx context.Context) bool { return d.hasTool(ctx, "words_count") })
			d.call("words_count", `{"text":"a b"}`)
			if r := d.result().Result; r.Status != content.StatusOK || !strings.HasPrefix(r.Text(), "got ") {
				t.Errorf("result = %+v", r)
			}
			service.Close()
			d.eventually("the tool is gone", func(ctx context.Context) bool { return !d.hasTool(ctx, "words_count") })
			w.end()
			select {
			case err := <-denials:
				t.Errorf("denied: %v", err)
			default:
			}
		})
	}
}

const manifest = `{"description": "Counts words.", "input": {"type": "object", "properties": {"text": {"type": "string"}}}}`

func TestAWorkerCallsAnHTTPTool(t *testing.T) {
	t.Parallel()
	fail := make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		switch {
		case r.Method == http.MethodGet:
			_, _ = io.WriteString(w, manifest)
		case strings.Contains(string(body), "crash"):
			close(fail)
			panic(http.ErrAbortHandler)
		default:
			_, _ = fmt.Fprintf(w, "%s for %s", body, r.Header.Get("Turnlog-Session"))
		}
	}))
	t.Cleanup(s.Close)
	d := deploy(t)
	w := d.start("--tools", "none", "--http-tool", "word_count="+s.URL)
	d.eventually("the tool is on offer", func(ctx context.Context) bool { return d.hasTool(ctx, "word_count") })
	d.call("word_count", `{"text":"a b"}`)
	if r := d.result().Result; r.Status != content.StatusOK || r.Text() != `{"text":"a b"} for s1` {
		t.Errorf("result = %+v", r)
	}
	w.end()

	// A service that crashes leaves an unknown outcome, as a worker does.
	d = deploy(t)
	w = d.start("--tools", "none", "--http-tool", "word_count="+s.URL)
	d.eventually("the tool is on offer", func(ctx context.Context) bool { return d.hasTool(ctx, "word_count") })
	d.call("word_count", `{"text":"crash"}`)
	if r, ok := d.report().(commands.ReportAttemptLost); !ok || r.Attempt != 1 || !strings.Contains(r.Reason, "not known") {
		t.Errorf("report = %+v, want the loss of the attempt", d.report())
	}
	<-fail
	w.end()
}

func TestServicesThatCannotBeAreRefused(t *testing.T) {
	t.Parallel()
	d := deploy(t)
	for want, args := range map[string][]string{
		"use a name of 1 to 32":                {"--nats-service", "a.b"},
		"belong to the deployment":             {"--nats-service", "turnlog"},
		"write the tool's name":                {"--http-tool", "http://x"},
		"no --http-tool has that name":         {"--http-tool-header", "x=A=env:B"},
		"use a reference":                      {"--http-tool", "x=http://x", "--http-tool-header", "x=A=hush"},
		"write an address or a range":          {"--http-tool-private", "here"},
		"their tools could have the same name": {"--http-tool", "git=http://x", "--http-tool", "git_hub=http://x"},
	} {
		code, printed := execute(t.Context(), append(args, "--server", d.url, "--root", t.TempDir())...)
		if code != cli.CodeUsage || !strings.Contains(printed, want) || strings.Contains(printed, "hush") {
			t.Errorf("%v = %d %s, want %q", args, code, printed, want)
		}
	}
}
