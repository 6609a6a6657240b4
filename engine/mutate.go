package engine

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/extension"
	"github.com/turnlog/turnlog/loop"
)

// Mutate runs one mutator on a copy of the transcript, which it may edit freely. A stopped
// mutator reports what it used. Mutate returns nil if ctx ended with a cause other than
// ErrStop: the mutator is owed again.
func (r *Runner) Mutate(ctx context.Context, e loop.RunMutator, v *View) commands.Command {
	f := events.MutationFinished{Mutator: e.Mutator, Point: e.Point}
	m := extension.Mutation{Point: extension.Point(e.Point), Session: v.Session, Turn: e.Turn, Items: content.DetachItems(v.Transcript)}
	err := r.mutate(ctx, e.Mutator, &m)
	if abandoned(ctx) {
		return nil
	}
	before, errBefore := content.Digest(v.Transcript)
	after, errAfter := content.Digest(m.Items)
	if err = cmp.Or(err, errBefore, errAfter); err != nil {
		after, f.Error = before, err.Error()
	}
	f.Before, f.After = before, after
	f.OldTokens, f.NewTokens, f.Usage, f.Metadata = m.OldTokens, m.NewTokens, m.Usage, m.Metadata.WithoutReserved()
	if after != before {
		f.Dirty, f.Replacement = true, m.Items
	}
	return commands.ReportMutation{Turn: e.Turn, Round: e.Round, Finished: f}
}

func (r *Runner) mutate(ctx context.Context, name string, m *extension.Mutation) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return safely("mutator "+name, func() error {
		i := slices.IndexFunc(r.cfg.Mutators, func(x extension.Mutator) bool { return x.Name() == name })
		if i < 0 {
			return fmt.Errorf("mutator %s is not configured on this node", name)
		}
		return r.cfg.Mutators[i].Mutate(ctx, m)
	})
}
