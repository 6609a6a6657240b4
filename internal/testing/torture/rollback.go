package torture

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/turnlog/turnlog/internal/pause"
	"github.com/turnlog/turnlog/internal/testing/rewind"
	"github.com/turnlog/turnlog/jetstream/admin"
)

// rollback is one return of a stream to an earlier state. Only messages stored in between may be lost.
type rollback struct {
	stream   string // its name in the cell, such as INBOX
	from, to time.Time
}

// rolling lists the streams that may be rolled back. Nothing can repair the rollback of a journal, and
// buckets and blobs are not logs.
func rolling() []string {
	return []string{"INBOX", "NAMED", "TIMERS", "RUN", "TASKS", "SCHEDULES", "NAMED_SCHEDULES"}
}

// begin reserves all servers for a rollback, which needs them. It reports whether all of them are running
// and no other rollback is.
func (g *site) begin() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.down >= 0 || g.rolling {
		return false
	}
	g.rolling = true
	return true
}

// ended notes a rollback and makes its servers available to other faults.
func (g *site) ended(r ...rollback) {
	g.lost.Lock()
	g.rollbacks = append(g.rollbacks, r...)
	g.lost.Unlock()
	g.mu.Lock()
	defer g.mu.Unlock()
	g.rolling = false
}

// mayHaveLost reports whether a rollback of a stream may have lost messages stored in this time.
func (g *site) mayHaveLost(stream string, from, to time.Time) bool {
	g.lost.Lock()
	defer g.lost.Unlock()
	for _, r := range g.rollbacks {
		if r.stream == stream && !to.Before(r.from) && !from.After(r.to) {
			return true
		}
	}
	return false
}

// rollback returns a stream to an earlier state: to a backup that is made now and restored when the
// fault ends, or to an empty stream. It returns false if that cannot be done now.
func (f *injector) rollback(ctx context.Context, x Fault) (string, bool) {
	g, streams := f.world.site, f.world.cfg.Streams
	row := g.row(streams[x.Pick%uint64(len(streams))])
	if !g.begin() {
		return "", false
	}
	r, what := rollback{stream: row.Name}, row.Name+", created again"
	again := func(ctx context.Context) error { return g.recreate(ctx, row.Stream) }
	if x.Pick>>32%3 > 0 && !g.layout.Memory {
		r.from, what = time.Now(), row.Name+", to a backup"
		keeping, cancel := context.WithTimeout(ctx, keepTimeout)
		defer cancel()
		old, err := rewind.Keep(keeping, g.direct, row.Stream)
		if err != nil { // it has no leader at the moment
			f.world.log.note("rollback: %v", err)
			g.ended()
			return "", false
		}
		again = func(ctx context.Context) error { return old.Restore(ctx, g.direct) }
	}
	f.pending.Go(func() {
		pause.For(ctx, x.Length)
		err := g.persist(context.WithoutCancel(ctx), again, func(ctx context.Context) error { return g.whole(ctx, row.Stream, &r.to) })
		if err != nil {
			f.world.log.violation("", EndsInTime, fmt.Sprintf("%s is not back: %v", row.Stream, err))
		}
		f.world.log.note("%s went back: what was stored from %s to %s is lost", row.Stream, r.from.Format(clock), r.to.Format(clock))
		g.ended(r)
	})
	return what, true
}

const (
	keepTimeout = 5 * time.Second
	clock       = "15:04:05.000"
)

// row returns a stream of the cell by its name.
func (g *site) row(name string) admin.Row {
	for _, row := range admin.Topology(g.namespace, g.layout) {
		if row.Name == name {
			return row
		}
	}
	return admin.Row{}
}

// recreate deletes a stream and creates it again.
func (g *site) recreate(ctx context.Context, stream string) error {
	if err := g.ask(ctx, "STREAM.DELETE."+stream); err != nil {
		return err
	}
	return admin.Of(g.cell).Provision(ctx, g.layout)
}

// persist carries out steps, each until it succeeds: leaders may be moving.
func (g *site) persist(ctx context.Context, steps ...func(context.Context) error) (err error) {
	ctx, cancel := context.WithTimeout(ctx, endTimeout)
	defer cancel()
	for _, step := range steps {
		for err = step(ctx); err != nil; err = step(ctx) {
			g.log.Warn("rollback: " + err.Error())
			if !pause.For(ctx, 100*time.Millisecond) {
				return err
			}
		}
	}
	return nil
}

// whole returns nil if all copies of a stream are up to date, so that a server may stop. It sets the time
// at which the stream is available.
func (g *site) whole(ctx context.Context, stream string, there *time.Time) error {
	if there.IsZero() {
		*there = time.Now()
	}
	msg, err := g.direct.RequestWithContext(ctx, "$JS.API.STREAM.INFO."+stream, nil)
	if err != nil {
		return fmt.Errorf("ask for %s: %w", stream, err)
	}
	var info struct {
		Cluster *struct {
			Leader   string `json:"leader"`
			Replicas []struct {
				Current bool `json:"current"`
			} `json:"replicas"`
		} `json:"cluster"`
		Error any `json:"error"`
	}
	if err := json.Unmarshal(msg.Data, &info); err != nil || info.Error != nil {
		return fmt.Errorf("ask for %s: %v, %w", stream, info.Error, err)
	}
	if info.Cluster == nil {
		return nil
	}
	current := 0
	for _, r := range info.Cluster.Replicas {
		if r.Current {
			current++
		}
	}
	if info.Cluster.Leader == "" || current < g.layout.Replicas-1 {
		return fmt.Errorf("%s has leader %q and %d other copies", stream, info.Cluster.Leader, current)
	}
	return nil
}
