package engine

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	"github.com/vmihailenco/msgpack/v5"

	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/extension"
	"github.com/turnlog/turnlog/loop"
)

// Mutate runs one mutator on a candidate of the transcript, which it may edit as it
// likes. One that is stopped reports what it spent. It returns nil if ctx ended for
// any other cause than ErrStop: the mutator is owed again.
func (r *Runner) Mutate(ctx context.Context, e loop.RunMutator, v *View) commands.Command {
	f := events.MutationFinished{Mutator: e.Mutator, Point: e.Point}
	m := extension.Mutation{Point: extension.Point(e.Point), Session: v.Session, Turn: e.Turn, Items: content.DetachItems(v.Transcript)}
	err := r.mutate(ctx, e.Mutator, &m)
	if abandoned(ctx) {
		return nil
	}
	was, is, digestErr := digests(v.Transcript, m.Items)
	if err = cmp.Or(err, digestErr); err != nil {
		is, f.Error = was, err.Error()
	}
	f.Before, f.After = was, is
	f.OldTokens, f.NewTokens, f.Usage, f.Metadata = m.OldTokens, m.NewTokens, m.Usage, m.Metadata.WithoutReserved()
	if is != was {
		f.Dirty, f.Replacement = true, m.Items
	}
	return commands.ReportMutation{Turn: e.Turn, Round: e.Round, Finished: f}
}

func (r *Runner) mutate(ctx context.Context, name string, m *extension.Mutation) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("mutator %s broke: %v", name, p)
		}
	}()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	for _, mut := range r.cfg.Mutators {
		if mut.Name() == name {
			return mut.Mutate(ctx, m)
		}
	}
	return fmt.Errorf("mutator %s is not configured here", name)
}

// digests says what the transcript was and what a mutator made of it.
func digests(before, after []content.Item) (was, is string, err error) {
	if was, err = digest(before); err != nil {
		return "", "", err
	}
	if is, err = digest(after); err != nil {
		return "", "", err
	}
	return was, is, nil
}

// digest covers the items as they are journaled: what a model says need not be JSON.
func digest(items []content.Item) (string, error) {
	raw, err := msgpack.Marshal(items)
	if err != nil {
		return "", fmt.Errorf("digest of the transcript: %w", err)
	}
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:]), nil
}
