package talk

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/turnlog/turnlog/client"
	"github.com/turnlog/turnlog/cmd/turnlog/internal/app"
	"github.com/turnlog/turnlog/cmd/turnlog/internal/flags"
	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/extension"
	"github.com/turnlog/turnlog/internal/cli"
	"github.com/turnlog/turnlog/policy/agentfile"
	"github.com/turnlog/turnlog/session"
)

// conversation is a session that a command submits input to and whose turns it shows.
type conversation struct {
	*app.App

	client  *client.Client
	id      content.SessionID
	session *session.Session // nil: it does not exist yet
	local   bool             // it ends with this process
	yes     bool             // approve everything
	asks    bool             // ask the user about approvals
	answers []answer         // they also cover later questions; owned by the approver
	place   string           // flags that name the deployment or the store, if it is not the default
	store   string           // of the sessions of this process, or ""
	root    string           // of the tools of this process, or ""
	lines   func() <-chan app.Line
	current *exchange               // the turn that is shown
	ended   map[content.CallID]bool // calls whose results were shown
	ahead   []app.Line              // typed before a question was shown, so not answers to it
	others  []content.SessionID     // the sessions listed last
}

// input is an input and how to submit it.
type input struct {
	text    string
	task    *events.TaskSpec // nil: a text
	files   []attached
	parts   []content.Part // the files, after attachFiles
	start   flags.Start
	onBusy  events.OnBusy
	busy    bool          // onBusy was given: it overrides the agent's setting
	rules   flags.Rules   // of this turn, in an existing session
	timeout time.Duration // 0: none
	seal    bool          // seal a new session
}

// connected runs do with the deployment that the flags name, until the connection is closed
// permanently.
func connected(ctx context.Context, r *app.Remote, do func(context.Context, *cli.Cell) error) error {
	d, err := r.Connect(ctx)
	if err != nil {
		return err
	}
	defer d.Close()
	ctx, stop := d.Lasting(ctx)
	defer stop()
	return do(ctx, d)
}

// existing connects to a deployment and runs do with one of its sessions.
func existing(ctx context.Context, r *app.Remote, id content.SessionID, do func(context.Context, *conversation) error) error {
	return connected(ctx, r, func(ctx context.Context, d *cli.Cell) error {
		return converse(ctx, r, d, id, func(ctx context.Context, v *conversation) error {
			if v.session == nil {
				return app.NoSession(id, session.ErrNotFound)
			}
			return do(ctx, v)
		})
	})
}

// converse runs do with a session, which may not exist yet.
func converse(ctx context.Context, r *app.Remote, d *cli.Cell, id content.SessionID, do func(context.Context, *conversation) error) error {
	v := &conversation{App: r.App, id: id, place: r.Repeat(), lines: sync.OnceValue(r.App.Lines), ended: make(map[content.CallID]bool)}
	var err error
	if v.client, err = r.Client(d, client.WithApprover(v)); err != nil {
		return err
	}
	if v.session, err = v.client.Attach(ctx, id); err != nil && !errors.Is(err, session.ErrNotFound) {
		return d.Advise(err)
	}
	defer func() {
		if v.session != nil {
			_ = v.session.Close(context.WithoutCancel(ctx)) // nothing is lost with it
		}
	}()
	return d.Advise(do(ctx, v))
}

// print submits input, follows its turn to the end, and prints it. The first interrupt and
// the timeout cancel the turn; the second interrupt leaves it.
func (v *conversation) print(ctx context.Context, in input, output string) error {
	if err := v.attachFiles(ctx, &in, maxInline); err != nil {
		return err
	}
	return v.follow(ctx, output, &exchange{
		timeout: in.timeout, task: in.task != nil,
		begin: func(ctx context.Context) (*session.Turn, error) {
			turn, err := v.submit(ctx, in)
			return turn, v.refused(err, in)
		},
	})
}

// submit submits the input and returns once a driver has recorded it.
func (v *conversation) submit(ctx context.Context, in input) (*session.Turn, error) {
	if v.session != nil {
		return v.add(ctx, in)
	}
	turn, err := v.start(ctx, in)
	switch e, refused := errors.AsType[*session.InvalidStateError](err); {
	case refused && e.Reason == commands.ReasonSessionExists: // another client has just started it
		if v.session, err = v.client.Attach(ctx, v.id); err != nil {
			return nil, err
		}
		return v.add(ctx, in)
	case err == nil && in.task != nil:
		return v.session.SubmitTask(ctx, in.goal(nil))
	}
	return turn, err
}

// add submits the input to the session, which has started.
func (v *conversation) add(ctx context.Context, in input) (*session.Turn, error) {
	if err := v.checkSeal(ctx, in); err != nil {
		return nil, err
	}
	if err := v.switchModel(ctx, in.start); err != nil {
		return nil, err
	}
	config := v.session.Config()
	if err := v.allow(ctx, in.rules.Allowed(config)); err != nil {
		return nil, err
	}
	options := in.rules.Options(config)
	if in.task != nil {
		return v.session.SubmitTask(ctx, in.goal(options))
	}
	return v.session.Submit(ctx, session.Input{Items: []content.Item{in.item()}, OnBusy: in.busyPolicy(config), Options: options})
}

// checkSeal refuses input that is to be sealed for a session that is not.
func (v *conversation) checkSeal(ctx context.Context, in input) error {
	if !in.seal {
		return nil
	}
	sealed, err := v.client.IsSealed(ctx, v.id)
	if err == nil && !sealed {
		return app.Failed(cli.CodeFailed, "session %s exists and is not sealed: leave out --seal, or choose another --session", v.id)
	}
	return err
}

// switchModel gives the session the model that the user named.
func (v *conversation) switchModel(ctx context.Context, start flags.Start) error {
	has := v.session.Config()
	if !start.Chosen || has.Model == start.Config.Model && bytes.Equal(has.ModelData, start.Config.ModelData) {
		return nil
	}
	err := v.session.SwitchModel(ctx, start.Config.Model, start.Config.ModelData)
	if e, refused := errors.AsType[*session.InvalidStateError](err); refused {
		return app.Failed(cli.CodeFailed, "session %s: --model: %s", v.id, e.Detail)
	}
	return forbidden(err)
}

// start starts the session with the input. A task is added after the start, since it needs an existing session.
func (v *conversation) start(ctx context.Context, in input) (*session.Turn, error) {
	o := client.Options{ID: v.id, Config: in.start.Config, SystemPrompt: in.start.System, Transcript: in.start.Instructions, Sealed: in.seal}
	if in.task == nil {
		o.Input = []content.Item{in.item()}
	}
	s, err := v.client.Start(ctx, o)
	if err != nil {
		return nil, err
	}
	v.session = s
	wish := flags.Rules{List: in.start.Config.Rules}
	if note := wish.Narrowed(s.Policy(), s.Config().Catalog); note != "" {
		_, _ = fmt.Fprintln(v.Err, note)
	}
	return s.Turn(content.TurnIDFor(1)), nil
}

// allow records a decision for the rest of the session.
func (v *conversation) allow(ctx context.Context, tools []string) error {
	if len(tools) == 0 {
		return nil
	}
	err := v.session.Grant(ctx, tools...)
	if e, refused := errors.AsType[*session.InvalidStateError](err); refused {
		return app.Failed(cli.CodeFailed, "session %s: --allow: %s", v.id, e.Detail)
	}
	return forbidden(err)
}

func (in input) item() content.Item {
	item := content.UserText(in.text)
	item.Parts = append(item.Parts, in.parts...)
	return item
}

func (in input) goal(options *events.TurnOptions) session.Task {
	t := session.Task{Goal: in.task.Goal, MaxRetries: in.task.MaxRetries, Files: in.parts, Options: options}
	if len(in.task.Verifier) > 0 {
		t.Verifier = extension.Command(in.task.Verifier...)
	}
	return t
}

// busyPolicy returns what happens to the input while a turn is open. Without a flag, the
// session's agent decides.
func (in input) busyPolicy(c events.Config) events.OnBusy {
	if d, err := agentfile.Recorded(c); err == nil && d != nil && d.OnBusy != "" && !in.busy {
		return flags.BusyPolicy(d.OnBusy)
	}
	return in.onBusy
}

// refused explains why the input was not taken.
func (v *conversation) refused(err error, in input) error {
	e, refused := errors.AsType[*session.InvalidStateError](err)
	switch {
	case errors.Is(err, session.ErrNoAnswer):
		return fmt.Errorf("session %s: %w within %v: start a driver-node; the input waits in the inbox", v.id, session.ErrNoAnswer, v.Patience.Answer)
	case !refused:
		return err
	case e.Reason == commands.ReasonBusy && in.task != nil:
		return app.Failed(cli.CodeFailed, "session %s is busy with another turn or task: try again later", v.id)
	case e.Reason == commands.ReasonBusy:
		return app.Failed(cli.CodeFailed, "session %s is busy with another turn: try again later, or use --on-busy queue", v.id)
	case e.Reason == commands.ReasonClosed:
		return app.Failed(cli.CodeFailed, "session %s is closed: start another one", v.id)
	case e.Detail != "":
		return app.Failed(cli.CodeFailed, "session %s: %s", v.id, e.Detail)
	}
	return app.Failed(cli.CodeFailed, "session %s: %w", v.id, err)
}
