package backup

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/turnlog/turnlog/jetstream/internal/api"
	"github.com/turnlog/turnlog/jetstream/internal/layout"
)

// existing is a stream that the cell has.
type existing struct {
	layout.Stream

	last uint64
}

// empty returns the cell's existing streams, if all of them may be deleted: they are unused since they were
// provisioned, or since a restore of this backup was interrupted. Otherwise it returns ErrNotEmpty.
func (r *restore) empty(ctx context.Context) (there []string, err error) {
	var all []existing
	for _, s := range r.names.Streams() {
		end, err := r.api.End(ctx, s.Config.Name)
		switch {
		case errors.Is(err, api.ErrNotProvisioned):
			continue
		case err != nil:
			return nil, err
		}
		all = append(all, existing{s, end.Last})
		there = append(there, s.Config.Name)
	}
	used := names(all, func(s existing) bool { return s.last > 0 && s.Name != "KEYS" }) // provisioning creates the key of tickets
	if len(used) == 0 {
		return there, nil
	}
	of, made, err := r.interrupted(ctx, all)
	why, since := "a restore replaces nothing", names(all, r.usedSince(made))
	switch {
	case err != nil:
		return nil, err
	case len(since) == 0 && (!made || of == r.ID):
		return there, nil
	case made && of == r.ID:
		used, why = since, "they were used after a restore of this backup was interrupted"
	case made && of != "":
		why = fmt.Sprintf("a restore of the backup %s was interrupted: repeat that one, or delete what it made", of)
	}
	if more := len(used) - 3; more > 0 {
		used = append(used[:3:3], fmt.Sprintf("%d others", more))
	}
	return nil, fmt.Errorf("%w: %s have messages: %s. Stop its nodes and workers, and restore into another account or server, or delete all of its streams: "+
		"for s in %s; do nats stream rm --force $s; done", ErrNotEmpty, strings.Join(used, ", "), why, strings.Join(there, " "))
}

func names(all []existing, which func(existing) bool) (out []string) {
	for _, s := range all {
		if which(s) {
			out = append(out, s.Config.Name)
		}
	}
	return out
}

// usedSince returns a function that reports whether a stream has messages that no restore of this backup
// wrote. marking says that JOURNAL exists, so a restore may have marked, deleted and woken sessions.
func (r *restore) usedSince(marking bool) func(existing) bool {
	wrote := []string{"JOURNAL", "RUN", "DEAD", "APPROVALS", "SEALS", "KEYS"}
	return func(s existing) bool {
		i := r.index(s.Name)
		switch {
		case marking && slices.Contains(wrote, s.Name), s.Name == "KEYS" && s.last == 1, s.last == 0:
			return false
		case i >= 0:
			return s.last != r.Streams[i].Last+ahead
		}
		return true
	}
}

// interrupted reports whether JOURNAL has messages, and which backup is being restored; "": none.
func (r *restore) interrupted(ctx context.Context, all []existing) (backup string, made bool, err error) {
	if !slices.ContainsFunc(all, func(s existing) bool { return s.Name == "JOURNAL" && s.last > 0 }) {
		return "", false, nil
	}
	has, err := r.journal(ctx)
	return has.Metadata[layout.MetaRestoring], true, err
}

// journal returns the settings of JOURNAL.
func (r *restore) journal(ctx context.Context) (jetstream.StreamConfig, error) {
	return r.settings(ctx, r.names.JournalStream())
}

func (r *restore) settings(ctx context.Context, stream string) (has jetstream.StreamConfig, err error) {
	config, err := r.api.DescribeStream(ctx, stream)
	if err == nil {
		err = json.Unmarshal(config, &has)
	}
	if err != nil {
		return has, fmt.Errorf("settings of %s: %w", stream, err)
	}
	return has, nil
}

// finish lets programs use the cell: JOURNAL last, so that until then the restore can be repeated.
func (r *restore) finish(ctx context.Context) error {
	if err := r.step("finish"); err != nil {
		return err
	}
	var others []string
	for _, s := range r.names.Streams() {
		if s.Name != "JOURNAL" {
			others = append(others, s.Config.Name)
		}
	}
	if err := errors.Join(api.Together(others, func(stream string) error { return r.release(ctx, stream) })...); err != nil {
		return err
	}
	if err := r.step("finish JOURNAL"); err != nil {
		return err
	}
	return r.release(ctx, r.names.JournalStream())
}

// release removes the mark of the restore from a stream.
func (r *restore) release(ctx context.Context, stream string) error {
	has, err := r.settings(ctx, stream)
	if err != nil || has.Metadata[layout.MetaRestoring] == "" {
		return err
	}
	js, err := jetstream.New(r.cell.Conn())
	if err != nil {
		return err //nolint:wrapcheck // only options can be wrong
	}
	delete(has.Metadata, layout.MetaRestoring)
	within, cancel := context.WithTimeout(ctx, api.CreateTimeout)
	defer cancel()
	if _, err := js.UpdateStream(within, has); err != nil {
		return fmt.Errorf("settings of %s: %w", stream, err)
	}
	return nil
}
