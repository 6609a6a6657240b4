package talk

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"github.com/turnlog/turnlog/client"
	"github.com/turnlog/turnlog/cmd/turnlog/internal/app"
	"github.com/turnlog/turnlog/cmd/turnlog/internal/deploy"
	"github.com/turnlog/turnlog/cmd/turnlog/internal/flags"
	"github.com/turnlog/turnlog/embedded"
	"github.com/turnlog/turnlog/gateway/acp"
	"github.com/turnlog/turnlog/internal/cli"
	"github.com/turnlog/turnlog/internal/settings"
)

// ACP returns the command that serves an editor.
func ACP(a *app.App) *cobra.Command {
	var f talkFlags
	cmd := &cobra.Command{
		Use:   "acp",
		Short: "Serve sessions to an editor over the Agent Client Protocol",
		Long: `Speaks the Agent Client Protocol, version 1, on stdin and stdout; logs go to stderr. An editor
starts it: docs/acp.md shows how to configure some editors.

If neither a flag nor NATS_URL or NATS_CONTEXT names a server, everything runs in this process,
as with "turnlog chat". The tools work in the folder that the editor names, or in --root. The
sessions of each folder are stored in their own directory under $XDG_STATE_HOME/turnlog/acp, or
~/.local/state/turnlog/acp if that variable is not set. --store names another directory; --store ""
stores nothing. Only one process at a time can use a folder's directory; the sessions of a second
one are not stored. With a server, sessions run on that deployment, with the tools of its workers.

The same calls need approval as with "turnlog run", and the editor asks you. The command ends at the
end of stdin. A stored session continues when the editor loads it again; a session of a deployment
keeps running.`,
		Example: `  turnlog acp
  turnlog acp --tools fs,shell --allow-write
  turnlog acp --agent agents/reviewer.yaml
  turnlog acp --server nats://127.0.0.1:4222`,
	}
	f.session.RegisterNew(cmd)
	f.registerHost(cmd, a, "`directory` for the sessions of this process, with a subdirectory for each folder; default: turnlog/acp in the user's state directory")
	settings.Lasts(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if state := a.StateDir(); state != "" && !f.given("store") {
			f.store = filepath.Join(state, "acp")
		}
		return a.UntilInterrupted(cmd.Context(), f.serve)
	}
	return cmd
}

// serve serves the editor at the other end of stdin and stdout.
func (f *talkFlags) serve(ctx context.Context) error {
	local := !f.remote.Named()
	start, err := f.session.Start(f.app, local)
	if err != nil {
		return err
	}
	if f.app.IsIn {
		f.app.Hint("an editor starts this command: see docs/acp.md; Ctrl-D exits")
	}
	serve := func(ctx context.Context, open func(context.Context, string) (*acp.Host, error)) error {
		return acp.Serve(ctx, acp.Config{Open: open, Version: cli.Version(), Answer: f.app.Patience.Answer, Log: f.remote.Logger()}, f.app.In, f.app.Out)
	}
	options := client.Options{Config: start.Config, SystemPrompt: start.System}
	if !local {
		return f.remotely(ctx, start.Agent, func(ctx context.Context, d *cli.Cell) error {
			c, err := f.remote.Client(d)
			if err != nil {
				return err
			}
			h := &acp.Host{Client: c, Start: options}
			return d.Advise(serve(ctx, func(context.Context, string) (*acp.Host, error) { return h, nil }))
		})
	}
	ctx, end := context.WithCancelCause(ctx)
	all := &folders{talkFlags: f, start: start, options: options, hosts: make(map[string]*acp.Host), end: end}
	defer all.running.Wait()
	defer end(nil)
	return serve(ctx, func(asking context.Context, name string) (*acp.Host, error) { return all.open(ctx, asking, name) })
}

// folders are the deployments of this process: one for each folder that sessions work in.
type folders struct {
	*talkFlags

	start   flags.Start
	options client.Options
	end     context.CancelCauseFunc
	running sync.WaitGroup

	mu    sync.Mutex
	hosts map[string]*acp.Host
}

// open returns the deployment of a folder, which exists until ctx ends.
func (d *folders) open(ctx, asking context.Context, name string) (*acp.Host, error) {
	if name == "" || d.given("root") {
		name = d.tools.Root
	}
	root, err := filepath.Abs(name)
	if err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if h := d.hosts[root]; h != nil {
		return h, nil
	}
	ready, failed := make(chan *acp.Host, 1), make(chan error, 1)
	d.running.Go(func() {
		err := d.run(ctx, root, func(h *acp.Host) { ready <- h })
		failed <- err
		d.mu.Lock()
		defer d.mu.Unlock()
		delete(d.hosts, root)
		if app.IsInterrupt(err) {
			d.end(err)
		}
	})
	select {
	case h := <-ready:
		d.hosts[root] = h
		return h, nil
	case err := <-failed:
		return nil, fmt.Errorf("open %s: %w", root, err)
	case <-asking.Done():
		return nil, context.Cause(asking)
	}
}

// run runs the deployment of a folder.
func (d *folders) run(ctx context.Context, root string, ready func(*acp.Host)) error {
	log := d.remote.Logger()
	if !d.given("log-level") {
		log = log.WithOptions(zap.IncreaseLevel(zap.ErrorLevel))
	}
	of, tools, options := deploy.AgentOf(&d.session, d.start.Agent, d.given), d.tools, d.options
	tools.Root = root
	var err error
	if options.Transcript, err = of.Instructions(root); err != nil {
		return err
	}
	here := deploy.ForSession(d.app, d.remote.Namespace(), of, d.start, tools, log)
	var lacks string
	do := func(ctx context.Context, cell *cli.Cell) error {
		c, err := d.remote.Client(cell)
		if err != nil {
			return err
		}
		ready(&acp.Host{Client: c, Start: options, Lacks: lacks})
		<-ctx.Done()
		return context.Cause(ctx)
	}
	store := d.storeOf(root)
	err = here.In(store).Run(ctx, do)
	if errors.Is(err, embedded.ErrStoreInUse) {
		lacks = "another process uses the stored sessions of " + root + " (" + store + "), and this one stores none; end the other one first"
		d.app.Hint("%s", lacks)
		err = here.Run(ctx, do)
	}
	return err
}

// storeOf returns the directory of the sessions of a folder, or "" if they are not stored.
func (d *folders) storeOf(root string) string {
	if d.store == "" {
		return ""
	}
	sum := sha256.Sum256([]byte(root))
	dir := filepath.Join(d.store, filepath.Base(root)+"-"+hex.EncodeToString(sum[:4]))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		d.app.Hint("sessions in %s are not stored: %v", root, err)
		return ""
	}
	return dir
}
