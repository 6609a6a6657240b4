package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"github.com/turnlog/turnlog/jetstream/admin"
)

// syncAlways is the only sync_interval that can be assumed of a server without a
// monitoring port.
const syncAlways = "always"

// Durability holds the profile that a deployment must have, and facts about its servers that NATS
// does not report to clients.
type Durability struct {
	profile  *Choice
	monitors []string
	assumed  *Choice
}

// NewDurability adds the flags for a profile to cmd.
func NewDurability(cmd *cobra.Command, usage string) *Durability {
	words := []string{""}
	for _, p := range admin.Profiles() {
		words = append(words, string(p))
	}
	d := &Durability{profile: NewChoice(words...), assumed: NewChoice("", syncAlways)}
	d.profile.Register(cmd, "profile", "", usage)
	cmd.Flags().StringArrayVar(&d.monitors, "monitor", nil,
		"`URL` of a NATS server's monitoring port, such as http://127.0.0.1:8222, to read when that server syncs to disk; repeat it for each server")
	d.assumed.Register(cmd, "assume-sync", "", "assume this `sync_interval` for servers that --monitor cannot read")
	return d
}

// Profile returns the requested profile, or "".
func (d *Durability) Profile() admin.Profile { return admin.Profile(d.profile.String()) }

// Check validates the monitoring ports.
func (d *Durability) Check() error {
	for _, m := range d.monitors {
		if err := admin.CheckMonitor(m); err != nil {
			return Usage("--monitor: %w", err)
		}
	}
	return nil
}

// Replicas returns the number of copies of created streams, given the value of --replicas.
func (d *Durability) Replicas(cmd *cobra.Command, replicas int) (int, error) {
	least := d.Profile().Replicas()
	if err := d.Check(); err != nil {
		return 0, err
	}
	if replicas < 1 {
		return 0, Usage("--replicas %d: use 1 or more", replicas)
	}
	if replicas < least && cmd.Flags().Changed("replicas") {
		return 0, Usage("--replicas %d is less than the %d of --profile %s", replicas, least, d.Profile())
	}
	return max(replicas, least), nil
}

// Verdict is the measured durability of a deployment.
type Verdict struct {
	Weak    []admin.Difference // each with what to change, by Cell.Change
	Unseen  []string           // servers that do not say when they sync
	Assumed []string           // servers that are assumed to sync always
	Unread  []error            // why monitoring ports could not be read
}

// Judge compares a deployment with the profile.
func (d *Durability) Judge(ctx context.Context, seen admin.Inspection) Verdict {
	p := d.Profile()
	var v Verdict
	var syncs []admin.ServerSync
	for _, url := range d.monitors {
		s, err := admin.ReadSync(ctx, url)
		if err != nil {
			v.Unread = append(v.Unread, err)
			continue
		}
		syncs = append(syncs, s)
	}
	v.Weak, v.Unseen = p.WeakSync(seen.Servers(), syncs)
	v.Weak = append(seen.Weaker(p), v.Weak...)
	if d.assumed.String() == syncAlways {
		v.Unseen, v.Assumed = nil, v.Unseen
	}
	return v
}

// Health returns what the servers report about their streams on their monitoring ports. Judge reports a
// port that cannot be read.
func (d *Durability) Health(ctx context.Context) (all []admin.StreamTrouble) {
	for _, url := range d.monitors {
		if found, err := admin.ReadHealth(ctx, url); err == nil {
			all = append(all, found...)
		}
	}
	return all
}

// Require returns an error unless the deployment is known, or assumed, to be as durable as
// the profile requires. It reads what the roles can read.
func (d *Durability) Require(ctx context.Context, cell *Cell, log *zap.Logger, as ...admin.Role) error {
	if d.Profile() == "" {
		return nil
	}
	seen, err := admin.Of(cell.Cell).Inspect(ctx, as...)
	if err != nil {
		return cell.explain(err, as)
	}
	for _, s := range seen.Streams {
		if s.Err != nil {
			return fmt.Errorf("durability of %s is unknown: %w", s.Stream, s.Err)
		}
	}
	v := d.Judge(ctx, seen)
	var weak []string
	for _, w := range v.Weak {
		weak = append(weak, fmt.Sprintf("%s: %s is %s, must be %s: %s", w.Object, w.Setting, w.Have, w.Want, admin.Of(cell.Cell).Change(w)))
	}
	if len(v.Unseen) > 0 {
		weak = append(weak, v.Blind())
	}
	if len(weak) > 0 {
		return fmt.Errorf("the deployment is weaker than its profile %s\n%s", d.Profile(), strings.Join(weak, "\n"))
	}
	log.Info("durability", zap.String("profile", string(d.Profile())), zap.Strings("servers", seen.Servers()), zap.Strings("sync_assumed_of", v.Assumed))
	return nil
}

// Blind returns which servers do not report when they sync, and how to find out.
func (v Verdict) Blind() string {
	why := ""
	if err := errors.Join(v.Unread...); err != nil {
		why = " (" + strings.ReplaceAll(err.Error(), "\n", "; ") + ")"
	}
	return fmt.Sprintf("no client can read the sync_interval of %s%s: name the monitoring ports with --monitor http://HOST:8222, "+
		"or, if you know that sync_interval is always, add --assume-sync always", strings.Join(v.Unseen, ", "), why)
}

// Replicate sets the number of copies of created streams to at least the profile's.
func (d *Deployment) Replicate(cmd *cobra.Command, p *Durability) (err error) {
	d.replicas, err = p.Replicas(cmd, d.replicas)
	return err
}
