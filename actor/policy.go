package actor

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/events/journal"
)

// addPolicy adds the part of the node's policy that applies to the session.
func (d *driver) addPolicy(ctx context.Context, env *commands.Envelope) error {
	if d.State.Opened {
		if d.policy == nil {
			subjects := d.State.Policy.Subjects
			if len(subjects) == 0 { // from before policies
				var err error
				if subjects, err = d.subjects(ctx, subjectOf(d.State.Config, commands.Envelope{}), d.State.Parent); err != nil {
					return err
				}
			}
			p := d.node.cfg.Policy.For(subjects...)
			d.policy = &p
		}
		env.Policy = d.policy
		return nil
	}
	open, ok := env.Command.(commands.OpenSession)
	if !ok {
		return nil
	}
	subjects, err := d.subjects(ctx, subjectOf(open.Config, *env), open.Parent)
	if err != nil {
		return err
	}
	p := d.node.cfg.Policy.For(subjects...)
	env.Policy = &p
	return nil
}

// subjectOf returns what the policy knows about a session with that configuration and opener. A user that the
// server verified cannot claim another name.
func subjectOf(c events.Config, opener commands.Envelope) events.Subject {
	s := events.Subject{Opener: cmp.Or(opener.User, opener.By)}
	s.OpenerClaimed = opener.User == "" && s.Opener != ""
	if c.Agent != nil {
		s.Agent, s.AgentClaimed = c.Agent.Name, !c.Agent.Known
	}
	return s
}

// subjects lists a session and the sessions that it works for, whose permissions it may not exceed.
func (d *driver) subjects(ctx context.Context, own events.Subject, parent content.SessionID) ([]events.Subject, error) {
	out := []events.Subject{own}
	if parent == "" {
		return out, nil
	}
	s, err := d.node.read(ctx, parent)
	switch {
	case errors.Is(err, journal.ErrNotFound):
		return out, nil // the caller runs outside the deployment
	case err != nil:
		return nil, err
	}
	of := s.Policy.Subjects
	if len(of) == 0 {
		of = []events.Subject{subjectOf(s.Config, commands.Envelope{})}
	}
	for _, p := range of {
		if !slices.Contains(out, p) {
			out = append(out, p)
		}
	}
	return out, nil
}
