package doctor

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dustin/go-humanize"

	"github.com/turnlog/turnlog/jetstream"
	"github.com/turnlog/turnlog/jetstream/admin"
	"github.com/turnlog/turnlog/jetstream/tickets"
)

// streams checks the settings of all streams and reports whether all of them exist
// and answer.
func (d *doctor) streams(seen admin.Inspection) (whole bool) {
	var missing []string
	answering := 0
	for _, s := range seen.Streams {
		switch overlap, overlaps := errors.AsType[*admin.OverlapError](s.Err); {
		case s.Err == nil:
			answering++
		case overlaps:
			d.found("subject-overlap", s.Stream, "%v", s.Err).
				do("nats stream rm " + overlap.Other + ", if its messages are not needed, then turnlog provision{namespace}; or use another --namespace")
		case errors.Is(s.Err, jetstream.ErrNotProvisioned):
			missing = append(missing, s.Stream)
		case !d.denied.about(s.Stream): // otherwise it is reported as a permission
			d.found("stream-silent", s.Stream, "%v", s.Err)
		}
		d.differences("stream-differs", s.Differences)
		for _, l := range s.Lagging {
			state := fmt.Sprintf("lacks %d entries", l.Entries)
			if l.Offline {
				state = "cannot be reached"
			}
			d.found("replica-behind", s.Stream, "the copy of %s on server %s %s", s.Stream, l.Server, state).
				do("start server " + l.Server + " if it is down, else wait and run the doctor again")
		}
	}
	if len(missing) > 0 {
		d.found("stream-missing", strings.Join(missing, " "), "%s", missingStreams(missing, len(seen.Streams)))
	}
	d.report.Examined.Streams = &answering
	return answering == len(seen.Streams)
}

// writeProbe is the text that the doctor stores as a test. The next garbage collection removes its blob.
const writeProbe = "turnlog doctor"

// probeTimeout bounds the test write.
const probeTimeout = 5 * time.Second

// writable checks that a write is stored. The description of a stream does not show a full disk, or that
// the stream has refused writes since the disk was full.
func (d *doctor) writable(ctx context.Context) {
	stored, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	_, _, err := d.cell.Blobs().PutFrom(stored, strings.NewReader(writeProbe))
	_, denied := jetstream.Denied(err) // to store anything
	if err == nil || denied || ctx.Err() != nil {
		return
	}
	f := d.found("store-unwritable", "BLOBS", "a blob of %d bytes could not be stored: %v", len(writeProbe), err)
	if errors.Is(err, jetstream.ErrFull) {
		f.do("make room: turnlog gc{namespace}, a larger disk, or larger limits (max_file_store of the server, max_store of the account)")
	}
}

// nearLimit is the share of a limit from which it is reported, in percent.
const nearLimit = 80

// limits looks for account limits that are nearly reached.
func (d *doctor) limits(ctx context.Context) {
	all, err := d.admin.Limits(ctx)
	if _, denied := jetstream.Denied(err); err != nil && !denied { // otherwise it is reported as a permission
		d.notExamined("limits of the account", err)
	}
	for _, l := range all {
		if l.Used*100 < l.Most*nearLimit {
			continue
		}
		used, most := strconv.FormatUint(l.Used, 10), strconv.FormatUint(l.Most, 10)
		if strings.HasSuffix(l.Of, "storage") || strings.HasSuffix(l.Of, "memory") {
			used, most = humanize.IBytes(l.Used), humanize.IBytes(l.Most)
		}
		d.found("account-limit", l.Of, "the account uses %s of its %s %s", used, most, l.Of)
	}
}

// health reports what servers say about the cell's streams on their monitoring ports. Without a write,
// only this shows that a stream refuses writes.
func (d *doctor) health(ctx context.Context, seen admin.Inspection) {
	for _, h := range d.durability.Health(ctx) {
		if slices.ContainsFunc(seen.Streams, func(s admin.StreamState) bool { return s.Stream == h.Stream }) {
			d.found("store-unwritable", h.Stream, "the server reports: %s", h.What)
		}
	}
}

// tickets checks that nodes can make and verify tickets.
func (d *doctor) tickets(ctx context.Context) {
	_, err := tickets.Of(ctx, d.cell.Cell)
	if _, denied := jetstream.Denied(err); err != nil && !denied { // otherwise it is reported as a permission
		d.found("ticket-key", "", "%v", err)
	}
}

func missingStreams(names []string, of int) string {
	if len(names) == of {
		return fmt.Sprintf("none of the %d streams exists: the deployment is not provisioned, or it has another --namespace", of)
	}
	return fmt.Sprintf("%d of %d streams %s missing", len(names), of, map[bool]string{true: "is", false: "are"}[len(names) == 1])
}

func (d *doctor) differences(check string, all []admin.Difference) {
	for _, x := range all {
		d.found(check, x.Object, "%s is %s, must be %s", x.Setting, x.Have, x.Want).do(d.admin.Change(x))
	}
}

// consumers checks the settings of all consumers.
func (d *doctor) consumers(all []admin.ConsumerState) {
	for _, c := range all {
		object := c.Stream
		if c.Name != "" {
			object += " > " + c.Name
		}
		d.differences("consumer-differs", c.Differences)
		switch {
		case errors.Is(c.Err, jetstream.ErrNotProvisioned):
			d.found("consumer-missing", object, "%v", c.Err)
		case c.Err != nil && !d.denied.about(c.Stream):
			d.notExamined("consumers of "+c.Stream, c.Err)
		case c.Paused:
			d.found("consumer-paused", object, "the consumer is paused").do("nats consumer resume " + c.Stream + " " + c.Name + " --force")
		}
	}
}

// durable compares copies and syncs with the profile. Without a profile it warns about
// settings that are too weak for production.
func (d *doctor) durable(ctx context.Context, seen admin.Inspection) {
	p := d.durability.Profile()
	v := d.durability.Judge(ctx, seen)
	if p == "" {
		d.weak(severityWarning, admin.ProfileStandard, seen.Weaker(admin.ProfileStandard))
	}
	d.weak(severityError, p, v.Weak)
	if len(v.Unseen) > 0 {
		d.found("durability-unseen", strings.Join(v.Unseen, " "), "it is not known when these servers sync to disk: %s", strings.Join(v.Unseen, ", ")).do(v.Blind())
	}
	for _, err := range v.Unread {
		d.found("monitor-silent", "", "%v", err)
	}
	d.unequal(seen)
}

// weak reports settings below the profile, one finding for all streams with the same one.
func (d *doctor) weak(severity string, p admin.Profile, all []admin.Difference) {
	for len(all) > 0 {
		first := all[0]
		var objects, changes []string
		all = slices.DeleteFunc(slices.Clone(all), func(x admin.Difference) bool {
			if x.Setting != first.Setting || x.Have != first.Have {
				return false
			}
			objects, changes = append(objects, x.Object), append(changes, d.admin.Change(x))
			return true
		})
		do := strings.Join(changes, "; ")
		if first.Setting == "num_replicas" {
			all := first
			all.Object = "$stream"
			do = fmt.Sprintf("for stream in %s; do %s; done", strings.Join(objects, " "), d.admin.Change(all))
			if d.durability.Profile() == "" {
				do = "turnlog doctor --profile dev{namespace}, if one copy is enough, and else on a cluster: " + do
			}
		}
		d.found("durability-weak", strings.Join(objects, " "), "%s is %s, profile %s needs %s", first.Setting, first.Have, p, first.Want).
			since(severity, weakness(first.Setting)).do(do)
	}
}

func weakness(setting string) string {
	switch setting {
	case "storage":
		return "data in memory is lost when its servers stop"
	case "sync_interval":
		return "unless sync_interval is always, servers that lose power together lose recently acknowledged writes"
	}
	return "with fewer than three copies, losing one server stops the deployment or loses its journals"
}

// unequal looks for streams that keep fewer copies than others. It does not depend on the profile.
func (d *doctor) unequal(seen admin.Inspection) {
	most := 0
	for _, s := range seen.Streams {
		most = max(most, s.Replicas)
	}
	for _, s := range seen.Streams {
		if s.Err != nil || s.Replicas == most || s.Replicas < d.durability.Profile().Replicas() {
			continue
		}
		x := admin.Difference{Object: s.Stream, Setting: "num_replicas", Have: strconv.Itoa(s.Replicas), Want: strconv.Itoa(most)}
		d.found("replicas-unequal", s.Stream, "%s has %d copies, other streams have %d", s.Stream, s.Replicas, most).do(d.admin.Change(x))
	}
}

// maxSkew is how far clocks may be apart. Nodes set deadlines by their own clocks, and servers
// enforce them by theirs, in whole seconds.
const maxSkew = time.Second

// serverClocks compares the clocks of the streams' leaders with the clock of this machine.
// It adopts the clock of the journal's leader.
func (d *doctor) serverClocks(seen admin.Inspection) {
	apart := make(map[string]time.Duration)
	for _, s := range seen.Streams {
		if s.Err != nil {
			continue
		}
		if s.Name == "JOURNAL" {
			d.ahead = s.Clock.Ahead
		}
		if s.Clock.Ahead.Abs() > maxSkew+s.Clock.Within {
			apart[s.Servers[0]] = s.Clock.Ahead
		}
	}
	for _, server := range slices.Sorted(maps.Keys(apart)) {
		d.found("clock-skew", server, "the clock of server %s is %s that of this machine", server, aheadOf(apart[server]))
	}
}

func aheadOf(t time.Duration) string {
	if t < 0 {
		return (-t).Round(time.Millisecond).String() + " behind"
	}
	return t.Round(time.Millisecond).String() + " ahead of"
}
