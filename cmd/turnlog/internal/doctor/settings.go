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

	"github.com/turnlog/turnlog/jetstream"
	"github.com/turnlog/turnlog/jetstream/admin"
)

// streams checks the settings of all streams and reports whether all of them exist
// and answer.
func (d *doctor) streams(seen admin.Inspection) (whole bool) {
	var missing []string
	whole = true
	d.report.Examined.Streams = new(0)
	for _, s := range seen.Streams {
		switch {
		case s.Err == nil:
			*d.report.Examined.Streams++
		case d.streamMissing(s):
			missing = append(missing, s.Stream)
		}
		whole = whole && s.Err == nil
		d.differences("stream-differs", s.Differences)
		d.lagging(s)
	}
	if len(missing) > 0 {
		d.found(finding{
			Check: "stream-missing", Object: strings.Join(missing, " "), What: missingStreams(missing, len(seen.Streams)), Do: "turnlog provision" + d.namespaceFlag(),
		})
	}
	return whole
}

func missingStreams(names []string, of int) string {
	if len(names) == of {
		return fmt.Sprintf("none of the %d streams exists: the deployment is not provisioned, or it has another --namespace", of)
	}
	return fmt.Sprintf("%d of %d streams %s missing", len(names), of, map[bool]string{true: "is", false: "are"}[len(names) == 1])
}

// lagging looks for copies that are out of date.
func (d *doctor) lagging(s admin.StreamState) {
	for _, l := range s.Lagging {
		what := fmt.Sprintf("the copy of %s on server %s lacks %d entries", s.Stream, l.Server, l.Entries)
		if l.Offline {
			what = fmt.Sprintf("the copy of %s on server %s cannot be reached", s.Stream, l.Server)
		}
		d.found(finding{
			Check: "replica-behind", Object: s.Stream, What: what,
			Do: "start server " + l.Server + " if it is down, else wait and run the doctor again",
		})
	}
}

// streamMissing reports whether a stream does not exist. Any other reason why it cannot
// be read becomes a finding.
func (d *doctor) streamMissing(s admin.StreamState) bool {
	overlap, inTheWay := errors.AsType[*admin.OverlapError](s.Err)
	switch {
	case inTheWay:
		d.found(finding{
			Check: "subject-overlap", Object: s.Stream, What: s.Err.Error(),
			Do: fmt.Sprintf("nats stream rm %s, if its messages are not needed, then turnlog provision%s; or use another --namespace", overlap.Other, d.namespaceFlag()),
		})
	case errors.Is(s.Err, jetstream.ErrNotProvisioned):
		return true
	case !d.denied.about(s.Stream): // otherwise it is reported as a permission
		d.found(finding{
			Check: "stream-silent", Object: s.Stream, What: s.Err.Error(), Do: "make sure that a majority of its servers is up: nats server report jetstream",
		})
	}
	return false
}

func (d *doctor) differences(check string, all []admin.Difference) {
	for _, x := range all {
		d.found(finding{Check: check, Object: x.Object, What: fmt.Sprintf("%s is %s, must be %s", x.Setting, x.Have, x.Want), Do: d.admin.Change(x)})
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
			d.found(finding{Check: "consumer-missing", Object: object, What: c.Err.Error(), Do: "turnlog provision" + d.namespaceFlag()})
		case c.Err != nil && !d.denied.about(c.Stream):
			d.blind("consumers of "+c.Stream, c.Err)
		case c.Paused:
			resume := fmt.Sprintf("nats consumer resume %s %s --force", c.Stream, c.Name)
			d.found(finding{Check: "consumer-paused", Object: object, What: "the consumer is paused", Do: resume})
		}
	}
}

// durable compares copies and syncs with the profile. Without a profile it warns about
// what is too weak for production.
func (d *doctor) durable(ctx context.Context, seen admin.Inspection) {
	p := d.durability.Profile()
	v := d.durability.Judge(ctx, seen)
	if p == "" {
		d.weak(severityWarning, admin.ProfileStandard, seen.Weaker(admin.ProfileStandard))
	}
	d.weak(severityError, p, v.Weak)
	if len(v.Unseen) > 0 && !v.Assumed {
		d.found(finding{
			Check: "durability-unseen", Object: strings.Join(v.Unseen, " "),
			What: "it is not known when these servers sync to disk: " + strings.Join(v.Unseen, ", "), Do: v.Blind(),
		})
	}
	for _, err := range v.Unread {
		d.found(finding{Check: "monitor-silent", What: err.Error(), Do: "start nats-server with --http_port 8222, or correct --monitor"})
	}
	d.unequal(seen)
}

// weak reports what is weaker than the profile, similar streams together.
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
		f := finding{
			Severity: severity, Check: "durability-weak", Object: strings.Join(objects, " "), Why: weakness(first.Setting),
			What: fmt.Sprintf("%s is %s, profile %s needs %s", first.Setting, first.Have, p, first.Want), Do: strings.Join(changes, "; "),
		}
		if d.durability.Profile() == "" && first.Setting == "num_replicas" {
			f.Do += "; or --profile dev, if one copy is enough"
		}
		d.found(f)
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

// unequal looks for streams that keep fewer copies than others, whatever the profile.
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
		d.found(finding{
			Check: "replicas-unequal", Object: s.Stream, What: fmt.Sprintf("%s has %d copies, other streams have %d", s.Stream, s.Replicas, most), Do: d.admin.Change(x),
		})
	}
}

// maxSkew is how far clocks may be apart: nodes set deadlines by their clocks and servers
// keep them by theirs, in whole seconds.
const maxSkew = time.Second

// serverClocks compares the clocks of the streams' leaders with this machine's, and
// adopts that of the journal's leader.
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
		d.found(finding{
			Severity: severityWarning, Check: "clock-skew", Object: server, Why: "deadlines and timers fire early or late where clocks disagree",
			What: fmt.Sprintf("the clock of server %s is %s that of this machine", server, aheadOf(apart[server])),
			Do:   "run a time service (chrony, systemd-timesyncd) on both machines",
		})
	}
}

func aheadOf(t time.Duration) string {
	if t < 0 {
		return (-t).Round(time.Millisecond).String() + " behind"
	}
	return t.Round(time.Millisecond).String() + " ahead of"
}
