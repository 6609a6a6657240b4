package torture

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/turnlog/turnlog/audit"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/events/journal"
)

const (
	setUpTimeout = 2 * time.Minute // bounds the setup
	workTimeout  = 2 * time.Minute // bounds the waits for results before the faults and after them
)

// Run runs a deployment under faults and checks it. When ctx ends, the faults end at once;
// sessions still come to rest, and everything is checked. An error means that there is no
// result.
func Run(ctx context.Context, c Config) (_ Result, err error) {
	if err := c.Validate(); err != nil {
		return Result{}, fmt.Errorf("torture: %w", err)
	}
	c = c.withDefaults()
	dir, err := os.MkdirTemp(c.Dir, "turnlog-torture-")
	if err != nil {
		return Result{}, fmt.Errorf("torture: %w", err)
	}
	file, err := os.Create(filepath.Join(dir, "parties.log"))
	if err != nil {
		return Result{}, errors.Join(fmt.Errorf("torture: %w", err), os.RemoveAll(dir))
	}
	c.Logger = tee(c.Logger, file)
	var res Result
	defer func() {
		err = errors.Join(err, file.Close())
		if res.Kept == "" {
			err = errors.Join(err, os.RemoveAll(dir))
		} else {
			err = errors.Join(err, os.RemoveAll(filepath.Join(dir, "nats")))
		}
	}()
	setUp, cancel := context.WithTimeout(ctx, setUpTimeout)
	defer cancel()
	g, err := newSite(setUp, c, dir)
	if err != nil {
		return Result{}, fmt.Errorf("torture: %w", err)
	}
	after := context.WithoutCancel(ctx)
	defer func() {
		end, cancel := context.WithTimeout(after, endTimeout)
		defer cancel()
		err = errors.Join(err, g.close(end))
	}()
	w := &world{cfg: c, site: g, ledger: newLedger(), log: newFindings()}
	if err := w.populate(setUp); err != nil {
		w.dismiss(after)
		return Result{}, fmt.Errorf("torture: %w", err)
	}
	res = w.run(ctx, dir)
	return res, nil
}

// tee makes a logger also write to a file, as evidence of violations.
func tee(log *zap.Logger, file *os.File) *zap.Logger {
	enc := zap.NewProductionEncoderConfig()
	enc.EncodeTime = zapcore.RFC3339NanoTimeEncoder
	enc.EncodeDuration = zapcore.StringDurationEncoder
	also := zapcore.NewCore(zapcore.NewJSONEncoder(enc), zapcore.Lock(file), zapcore.InfoLevel)
	return log.WithOptions(zap.WrapCore(func(core zapcore.Core) zapcore.Core { return zapcore.NewTee(core, also) }))
}

// dismiss ends all processes.
func (w *world) dismiss(ctx context.Context) {
	w.leave(ctx, append(w.nodes.list(), w.workers.list()...))
	w.leave(ctx, slices.Concat(w.clients, w.observerProcs, w.writerProcs, w.callers))
	w.awaitKilled(ctx)
}

// run causes the faults, lets the sessions come to rest, and checks everything.
func (w *world) run(ctx context.Context, dir string) Result {
	after := context.WithoutCancel(ctx)
	living, stop := context.WithCancel(after)
	defer stop()
	over := make(chan struct{})
	var operator sync.WaitGroup
	operator.Go(func() { w.operate(living) })
	talked := make(chan struct{})
	go func() {
		defer close(talked)
		w.converse(living, over)
	}()

	w.await(ctx, &w.results, w.cfg.Sessions) // so the nodes know the workers' tools
	w.log.note("the sessions are running")
	f := &injector{world: w, plan: plan(w.cfg.Seed, w.cfg.Kinds, w.cfg.Duration, w.cfg.Gap), done: make(map[Kind]int)}
	before := w.results.count()
	chaos, calm := context.WithCancel(ctx)
	for n, p := range w.callers {
		p.Run(chaos, func(ctx context.Context) error { w.cfg.Clients[n](ctx, p); return nil })
	}
	f.inject(chaos)
	calm()
	f.pending.Wait()
	w.awaitCallers(after)
	w.cfg.OnCalm()
	w.log.note("the faults are over")
	w.await(ctx, &w.results, before+w.cfg.Sessions)
	close(over)
	w.leave(after, w.writerProcs)
	patience := time.AfterFunc(w.cfg.Rest, stop)
	<-talked
	users := &w.crowd
	users.settle(living, w.cfg.Workload.Tail)
	patience.Stop()
	w.log.note("the sessions are at rest, or out of time")
	stop()
	users.running.Wait()
	operator.Wait()
	if n := w.aside.count(); n > 0 && f.done[NodeKilled]+f.done[NodeFrozen] == 0 {
		w.log.violation("", NoStuckSession, fmt.Sprintf("%d sessions were set aside although no node died", n))
	}

	w.leave(after, slices.Concat(w.nodes.list(), w.workers.list(), w.callers))
	w.awaitKilled(after)
	j := &judge{
		world: w, runs: w.ledger.all(), losses: f.losses,
		hashes: make(map[content.SessionID][]events.Hash), records: make(map[content.SessionID][]journal.Record),
	}
	j.all(after, users.all)
	j.observersAgree(after)
	w.leave(after, slices.Concat(w.clients, w.observerProcs))
	return j.result(f.done, users.all, dir)
}

// await waits until n have happened, so that a run tests something even on a slow machine.
func (w *world) await(ctx context.Context, c *counter, n int) {
	ctx, cancel := context.WithTimeout(ctx, workTimeout)
	defer cancel()
	c.await(ctx, n)
}

// result adds everything up, and stores the evidence of violations.
func (j *judge) result(done map[Kind]int, users []*user, dir string) Result {
	found, notes := j.world.log.all()
	r := Result{
		Seed: j.world.cfg.Seed, Faults: done, SessionsTotal: len(users), Entries: j.entries, Calls: j.calls,
		SetAside: j.world.aside.count(), Violations: make(map[string]int), Recovery: recoveryOf(j.recovery), Found: found, Losses: len(j.recovery),
	}
	for _, p := range users {
		r.Sessions = append(r.Sessions, p.scenario.id)
		p.mu.Lock()
		r.Commands += len(p.accepted)
		r.Repeated += p.repeated
		if p.rests {
			r.SessionsFinished++
		}
		p.mu.Unlock()
	}
	for _, v := range found {
		r.Violations[v.Invariant]++
	}
	if len(found) == 0 {
		return r
	}
	r.Kept = dir
	if err := j.store(dir, found, notes); err != nil {
		j.world.cfg.Logger.Error("some evidence could not be stored", zap.Error(err))
	}
	return r
}

// store writes the violations, the notes and the journals concerned.
func (j *judge) store(dir string, found []Violation, notes []string) error {
	var lines []string
	sessions := make(map[content.SessionID]bool)
	for _, v := range found {
		lines = append(lines, v.String())
		sessions[v.Session] = true
	}
	failed := []error{
		os.WriteFile(filepath.Join(dir, "violations.txt"), []byte(strings.Join(lines, "\n")+"\n"), 0o600),
		os.WriteFile(filepath.Join(dir, "log.txt"), []byte(strings.Join(notes, "\n")+"\n"), 0o600),
	}
	for s := range sessions {
		if len(j.records[s]) > 0 {
			failed = append(failed, j.export(dir, s))
		}
	}
	return errors.Join(failed...)
}

func (j *judge) export(dir string, s content.SessionID) error {
	file, err := os.Create(filepath.Join(dir, string(s)+".jsonl")) //nolint:gosec // a session ID is one token
	if err != nil {
		return fmt.Errorf("keep the journal of %s: %w", s, err)
	}
	err = audit.Export(file, journal.All(j.records[s]))
	return errors.Join(err, file.Close())
}
