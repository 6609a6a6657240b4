//go:build browser

package page

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/turnlog/turnlog/client"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/events/journal"
	"github.com/turnlog/turnlog/internal/release"
	"github.com/turnlog/turnlog/internal/testing/cell"
	"github.com/turnlog/turnlog/internal/testing/clitest"
	"github.com/turnlog/turnlog/internal/testing/issuertest"
	"github.com/turnlog/turnlog/jetstream"
	"github.com/turnlog/turnlog/jetstream/admin"
	"github.com/turnlog/turnlog/tool"
	"github.com/turnlog/turnlog/worker"
)

const (
	token  = "token-of-the-walk"
	script = `
replies:
  - calls: [{name: shell_exec, input: {argv: ["sh", "-c", "echo hi"]}}]
  - text: "That was **bold**. <img src=x onerror=alert(1)>"
  - calls: [{name: shell_exec, input: {argv: ["sh", "-c", "echo two"]}}]
  - text: "Done."
  - calls: [{name: shell_exec, input: {argv: ["sleep", "60"]}}]
  - text: "That was cancelled."
  - text: "You said {{.Prompt}}"
    repeat: true
`
)

// TestAPersonWalksThroughThePage starts a server, a node and a gateway, and lets a browser walk through the page. The
// gateway is stopped and started again meanwhile.
func TestAPersonWalksThroughThePage(t *testing.T) {
	t.Parallel()
	s := clitest.NewSite(t, "TURNLOG_GATEWAY_TOKEN="+token)
	s.Run(5, "turnlog", "run", "--session", "walk", "--model", "scripted:"+written(t, script), "Go") // it waits for an approval

	address := freeAddress(t) // which stays while the gateway is started again
	gateway := func() (stop func()) {
		g := s.Start("turnlog", "gateway", "--listen", address)
		g.Await(t, "http://")
		return g.Stop
	}
	stop := gateway()

	clitest.Follow(t, map[string]func(){
		"stop the gateway":        func() { stop() },
		"send the text meanwhile": func() { s.Run(0, "turnlog", "send", "walk", "meanwhile") },
		"send the text restored":  func() { s.Run(0, "turnlog", "send", "walk", "restored") },
		"start the gateway":       func() { stop = gateway() },

		"fail a turn": func() {
			s.Run(1, "turnlog", "run", "--session", "fails", "--model", "scripted:"+written(t, "replies: [{error: {class: invalid_request, message: no such luck}}]"), "Go")
		},
		"leave a call without a worker": func() { unattended(t, s) },
	}, "walk.mjs", "http://"+address+"/", token, pictures(t))
}

// written returns the name of a file with a script.
func written(t *testing.T, script string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "script.yaml")
	if err := os.WriteFile(file, []byte(script), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// unattended has a session wait for a tool of a queue whose worker has stopped.
func unattended(t *testing.T, s *clitest.Site) {
	t.Helper()
	nc := clitest.Dial(t, s.NATS)
	cell, err := jetstream.Open(nc, "")
	if err != nil {
		t.Fatal(err)
	}
	offer := jetstream.Offer{Release: release.Version(), Worker: "w-gpu", Queue: "gpu", Tools: []tool.Spec{{Name: "render", Effects: content.ReadOnly, InputSchema: []byte(`{"type":"object"}`)}}}
	err = admin.Of(cell).EnsureQueue(t.Context(), admin.QueueConfig{Name: offer.Queue})
	if err == nil {
		err = cell.Catalog().Advertise(t.Context(), offer)
	}
	c, failed := client.Open(nc, "")
	if err = errors.Join(err, failed); err != nil {
		t.Fatal(err)
	}
	waits, err := c.Start(t.Context(), client.Options{
		ID: "unattended", Config: events.Config{
			Model: "scripted:x", ModelData: []byte("replies:\n  - calls: [{name: render, input: {}}]\n"),
		}, Input: []content.Item{content.UserText("Draw")},
	})
	if err != nil {
		t.Fatal(err)
	}
	for u, err := range c.Follow(t.Context(), waits.ID(), 0) {
		if err != nil {
			t.Fatal(err)
		}
		if u.Record != nil && slices.ContainsFunc(u.Record.Entry.Events, func(ev events.Event) bool { _, sent := ev.(events.ToolDispatched); return sent }) {
			break
		}
	}
	if err := errors.Join(waits.Close(t.Context()), cell.Catalog().Withdraw(t.Context(), offer.Worker)); err != nil {
		t.Fatal(err)
	}
}

const deciding = `
replies:
  - calls: [{name: shell_exec, input: {argv: ["sh", "-c", "echo one"]}}]
  - calls: [{name: shell_exec, input: {argv: ["sh", "-c", "echo always"]}}]
  - calls: [{name: shell_exec, input: {argv: ["sh", "-c", "echo always"]}}]
  - calls: [{name: shell_exec, input: {argv: ["sh", "-c", "echo never"]}}]
  - text: "The results: {{range .Results}}{{.Text}}, {{end}}"
    repeat: true
`

// TestAPersonDecidesOnThePage clicks each button that decides about a call.
func TestAPersonDecidesOnThePage(t *testing.T) {
	t.Parallel()
	s := clitest.NewSite(t, "TURNLOG_GATEWAY_TOKEN="+token)
	s.Run(5, "turnlog", "run", "--session", "decide", "--model", "scripted:"+written(t, deciding), "Go")
	address := freeAddress(t)
	s.Start("turnlog", "gateway", "--listen", address).Await(t, "http://")
	began := make(chan struct{})
	var lose func()
	clitest.Follow(t, map[string]func(){
		"owe two sums": func() {
			lose = payer(t, s, "w-1", func(ctx context.Context, _ int) (string, error) {
				began <- struct{}{}
				<-ctx.Done()
				return "", context.Cause(ctx)
			})
			owe(t, s, 5)
			owe(t, s, 6)
		},
		"lose the worker": func() {
			<-began
			<-began
			lose()
			payer(t, s, "w-2", func(_ context.Context, sum int) (string, error) { return fmt.Sprint("paid ", sum), nil })
		},
	}, "decide.mjs", "http://"+address+"/", token, pictures(t))
}

const purse = "purse" // a queue

// payer runs a worker with a tool that must not run twice, until the test or lose ends.
func payer(t *testing.T, s *clitest.Site, name string, pay func(context.Context, int) (string, error)) (lose func()) {
	t.Helper()
	nc := clitest.Dial(t, s.NATS)
	c, err := jetstream.Open(nc, "")
	if err == nil {
		err = admin.Of(c).EnsureQueue(t.Context(), admin.QueueConfig{Name: purse})
	}
	pays, failed := tool.Func("pay", "Pays.", func(ctx context.Context, in struct {
		Sum int `json:"sum"`
	},
	) (string, error) {
		return pay(ctx, in.Sum)
	})
	if err = errors.Join(err, failed); err != nil {
		t.Fatal(err)
	}
	p := cell.NewProcess(name, nc, c, nil)
	w, err := p.Worker(t.Context(), purse, worker.Config{DrainTimeout: time.Millisecond}, pays)
	if err == nil {
		err = c.Catalog().Advertise(t.Context(), jetstream.Offer{Release: release.Version(), Worker: name, Queue: purse, Tools: []tool.Spec{pays.Spec()}})
	}
	if err != nil {
		t.Fatal(err)
	}
	p.Run(t.Context(), w.Run)
	return sync.OnceFunc(func() {
		if err := p.Close(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
}

// owe has a session ask for a call of the tool.
func owe(t *testing.T, s *clitest.Site, sum int) {
	t.Helper()
	c, err := client.Open(clitest.Dial(t, s.NATS), "")
	if err != nil {
		t.Fatal(err)
	}
	calls := fmt.Sprintf("replies:\n  - calls: [{name: pay, input: {sum: %d}}]\n  - text: 'You said {{.Prompt}}'\n    repeat: true\n", sum)
	owes, err := c.Start(t.Context(), client.Options{
		ID: content.SessionID(fmt.Sprint("debt-", sum)), Config: events.Config{Model: "scripted:x", ModelData: []byte(calls), Rules: []events.Rule{{Tool: "*", Action: events.RuleAsk}}},
		Input: []content.Item{content.UserText("Pay")},
	})
	if err == nil {
		err = owes.Close(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
}

func freeAddress(t *testing.T) string {
	t.Helper()
	var cfg net.ListenConfig
	l, err := cfg.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err == nil {
		err = l.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	return l.Addr().String()
}

// pictures returns the folder for screenshots.
func pictures(t *testing.T) string {
	t.Helper()
	if folder := os.Getenv("TURNLOG_SCREENSHOTS"); folder != "" {
		return folder
	}
	return t.TempDir()
}

// TestThePageShowsMuchInParts has 2,000 sessions, and one with 10,000 entries. The browser checks that what it fetches and shows does
// not grow with their number.
func TestThePageShowsMuchInParts(t *testing.T) {
	t.Parallel()
	s := clitest.NewSite(t, "TURNLOG_GATEWAY_TOKEN="+token)
	nc := clitest.Dial(t, s.NATS)
	cell, err := jetstream.Open(nc, "")
	if err != nil {
		t.Fatal(err)
	}
	for i := range 2000 {
		state := events.RunStarted{
			Config: events.Config{Model: "m"}, Metadata: content.Metadata{}.With("owner", fmt.Sprint("person-", i%7)),
			Transcript: []content.Item{content.UserText(fmt.Sprint("Number ", i)), content.NewItem(content.Assistant, content.CallPart(content.ToolCall{ID: "c", Name: fmt.Sprint("tool_", i%5), Input: []byte("{}")}))},
		}
		e := events.Entry{Session: content.SessionID(fmt.Sprint("n-", i)), Cause: "test", At: content.TimeOf(time.Now()), Epoch: 1, Events: []events.Event{events.DriverClaimed{Epoch: 1}, state, events.Parked{}}}
		if _, err := cell.Journal().Append(t.Context(), journal.Head{}, e); err != nil {
			t.Fatal(err)
		}
	}
	c, err := client.Open(nc, "")
	if err != nil {
		t.Fatal(err)
	}
	long, err := c.Start(t.Context(), client.Options{
		ID: "long", Config: events.Config{Model: "scripted:long", ModelData: []byte("replies:\n  - {text: 'You said {{.Prompt}}', repeat: true}\n")},
	})
	if err != nil {
		t.Fatal(err)
	}
	turns := 0
	for ; long.Head().Seq < 10_000; turns++ {
		if _, err := long.RunText(t.Context(), fmt.Sprint("Turn ", turns+1)); err != nil {
			t.Fatal(err)
		}
	}
	if err := long.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	address := freeAddress(t)
	screen := s.Start("turnlog", "gateway", "--listen", address)
	screen.Await(t, "http://")
	clitest.Follow(t, map[string]func(){
		"send a text": func() { s.Run(0, "turnlog", "send", "long", "the newest one") },
	}, "large.mjs", "http://"+address+"/", token, pictures(t), strconv.Itoa(turns))
}

// TestAPersonLogsInAtAProvider has people of a provider of OpenID Connect log in with a browser at two gateways.
func TestAPersonLogsInAtAProvider(t *testing.T) {
	t.Parallel()
	var cfg net.ListenConfig
	l, err := cfg.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	provider := issuertest.New(t, "http://"+l.Addr().String())
	provider.Form = true
	srv := &http.Server{Handler: provider, ReadHeaderTimeout: time.Minute}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = srv.Serve(l)
	}()
	t.Cleanup(func() {
		_ = srv.Close()
		<-ended
	})
	s := clitest.NewSite(t)
	dir, address := t.TempDir(), freeAddress(t)
	people := filepath.Join(dir, "people.yaml")
	for name, text := range map[string]string{
		"key": strings.Repeat("k", 44) + "\n", "secret": issuertest.Secret + "\n", "script": script,
		"people.yaml": `oidc:
  issuer: ` + provider.URL + `
  client: turnlog
  secret: secret
  key: key
  url: http://` + address + `
  claim: realm_access.roles
  roles:
    - {value: reviewers, role: approver}
    - {value: writers, role: user}
`,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	gateway := func() (stop func()) {
		g := s.Start("turnlog", "gateway", "--listen", address, "--people", people, "--model", "scripted:"+filepath.Join(dir, "script"))
		g.AwaitMatch(t, `http://(127\.0\.0\.1:\d+)`)
		return g.Stop
	}
	stop := gateway()
	clitest.Follow(t, map[string]func(){
		"start another gateway": func() { stop(); stop = gateway() },
		"end the provider":      func() { provider.Down.Store(true) },
	}, "login.mjs", "http://"+address+"/", provider.URL, pictures(t))
}
