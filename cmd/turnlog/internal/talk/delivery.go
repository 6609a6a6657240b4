package talk

import (
	"context"

	"github.com/oklog/ulid/v2"

	"github.com/turnlog/turnlog/client"
	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/content"
)

// delivery is the commands that submit input, in order.
type delivery []envelope

type envelope struct {
	id  string
	cmd commands.Command
}

// send sends the commands until one fails.
func (d delivery) send(ctx context.Context, c *client.Client, session content.SessionID) error {
	for _, e := range d {
		if err := c.Send(ctx, session, e.id, e.cmd); err != nil {
			return forbidden(e.cmd, err)
		}
	}
	return nil
}

// delivery returns the commands that submit the input. The last one has the ID ask. A task
// needs an open session, and --allow is a command of its own, which needs its own permission.
func (in input) delivery(t *tracker, ask, by string) delivery {
	var d delivery
	first := func(c commands.Command) { d = append(d, envelope{ulid.Make().String(), c}) }
	if tools := in.rules.Allowed(t.config); t.opened && len(tools) > 0 {
		first(commands.AllowTools{Tools: tools, By: by})
	}
	if in.task != nil && !t.opened {
		first(in.start.Open())
	}
	return append(d, envelope{ask, in.ask(t)})
}
