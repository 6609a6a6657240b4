package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net"
	"net/netip"
	"sync"

	"github.com/nats-io/nats.go"
	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/turnlog/turnlog/actor"
	"github.com/turnlog/turnlog/client"
	"github.com/turnlog/turnlog/client/webhooks"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/embedded"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/gateway"
	"github.com/turnlog/turnlog/gateway/people"
	"github.com/turnlog/turnlog/jetstream"
	"github.com/turnlog/turnlog/jetstream/admin"
	"github.com/turnlog/turnlog/model"
	"github.com/turnlog/turnlog/model/scripted"
	"github.com/turnlog/turnlog/tool"
	"github.com/turnlog/turnlog/worker"
)

const script = `
replies:
  - calls: [{name: send_mail, input: {to: press, text: We ship today.}}]
  - text: "Done: {{(index .Results 0).Text}}."
`

// errDone ends the deployment once the turn is finished.
var errDone = errors.New("done")

// deployed is a deployment: a server, a node, a worker, a gateway and a sender of webhooks, which are processes of their own
// elsewhere. It runs one session until its turn is finished and Slack shows the decision.
func deployed(ctx context.Context, b *bridge, hooks string, answered <-chan struct{}, out *log.Logger) error {
	srv, err := embedded.Start(ctx)
	if err != nil {
		return err
	}
	defer srv.Close()
	nc, err := srv.Connect()
	if err != nil {
		return err
	}
	cell, err := jetstream.Open(nc, "")
	if err != nil {
		return err
	}
	if err := admin.Of(cell).Provision(ctx, admin.Config{Memory: true, Queues: []admin.QueueConfig{{Name: "mail"}}}); err != nil {
		return err
	}
	node, err := actor.NewNode(cell, actor.Config{Models: func(name string, data []byte) (model.Model, error) { return scripted.Parse(name, data) }})
	if err != nil {
		return err
	}
	secrets, err := webhooks.ParseSecrets(b.Hook)
	if err != nil {
		return err
	}
	sending, once := make(chan struct{}), new(sync.Once)
	begins := func(s webhooks.Status) {
		if s.Sending {
			once.Do(func() { close(sending) })
		}
	}
	sender := webhooks.New(cell, webhooks.Config{Report: begins, Endpoints: []webhooks.Endpoint{{
		Name: "slack", URL: hooks, Types: []webhooks.Type{webhooks.ApprovalNeeded}, Details: true,
		Private: []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")},
		Secrets: func() ([][]byte, error) { return secrets, nil },
	}}}, zap.NewNop())
	group, ctx := errgroup.WithContext(ctx)
	if b.Gateway, err = serveGateway(ctx, group, nc, b.Token); err != nil {
		return err
	}
	offers := cell.Offers("mail-1", "mail")
	group.Go(func() error { return work(ctx, cell, offers) })
	group.Go(func() error { return sender.Run(ctx) })
	group.Go(func() error {
		select {
		case <-offers.Made(): // from now on a node that starts knows the tool
			return node.Run(ctx)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	})
	group.Go(func() error {
		select {
		case <-sending: // it tells of what happens from now on
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		answer, err := ask(ctx, nc)
		if err != nil {
			return err
		}
		select {
		case <-answered:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		out.Println("the session answers:", answer)
		return errDone
	})
	if err := group.Wait(); !errors.Is(err, errDone) {
		return fmt.Errorf("serve: %w", err)
	}
	return nil
}

// serveGateway serves a gateway whose operator is the bridge, and returns where.
func serveGateway(ctx context.Context, group *errgroup.Group, nc *nats.Conn, token string) (string, error) {
	c, err := client.Open(nc, "")
	if err != nil {
		return "", err
	}
	g, err := gateway.New(gateway.Config{Client: c, Access: people.Access{Token: token, Operator: "slack", Loopback: true}})
	if err != nil {
		return "", err
	}
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("serve the gateway: %w", err)
	}
	group.Go(func() error { return g.Serve(ctx, l) })
	return "http://" + l.Addr().String(), nil
}

// work runs calls of the tool until ctx ends.
func work(ctx context.Context, cell *jetstream.Cell, offers *jetstream.Offers) error {
	send, err := tool.Func("send_mail", "Sends a mail.", func(_ context.Context, m struct {
		To   string `json:"to"`
		Text string `json:"text"`
	},
	) (string, error) {
		return "sent to " + m.To, nil
	})
	if err != nil {
		return err
	}
	tools, err := tool.NewRegistry("mail", send)
	if err != nil {
		return err
	}
	queue, err := cell.Queue(ctx, "mail")
	if err != nil {
		return err
	}
	w, err := worker.New(worker.Config{Queue: queue, Tools: []tool.Source{tools}, Offers: offers, Logger: zap.NewNop()})
	if err != nil {
		return err
	}
	return w.Run(ctx)
}

// ask starts a session, and returns its answer. It decides nothing.
func ask(ctx context.Context, nc *nats.Conn) (string, error) {
	c, err := client.Open(nc, "")
	if err != nil {
		return "", err
	}
	s, err := c.Start(ctx, client.Options{ID: "release", Config: events.Config{
		Model: "scripted:release", ModelData: []byte(script), Rules: []events.Rule{{Tool: "send_*", Action: events.RuleAsk}},
	}})
	if err != nil {
		return "", err
	}
	defer func() { _ = s.Close(context.WithoutCancel(ctx)) }()
	if err := s.Send(ctx, events.Steer, content.UserText("Announce the release.")); err != nil {
		return "", err
	}
	answer := ""
	for u, err := range c.Follow(ctx, s.ID(), 0) {
		if err != nil {
			return "", err
		}
		if u.Record == nil {
			continue
		}
		for _, ev := range u.Record.Entry.Events {
			switch ev := ev.(type) { //nolint:gochecksumtype // the others do not matter here
			case events.ReplyRecorded:
				answer = ev.Items[len(ev.Items)-1].Text()
			case events.TurnFinished:
				return answer, nil
			}
		}
	}
	return "", context.Cause(ctx)
}
