package eval

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/google/renameio/v2"
	"golang.org/x/sync/errgroup"

	"github.com/turnlog/turnlog/agent/replay"
	"github.com/turnlog/turnlog/audit"
	"github.com/turnlog/turnlog/client"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/events/journal"
	"github.com/turnlog/turnlog/model"
)

// Config says where a suite runs, and with what.
type Config struct {
	Client *client.Client // connected to the deployment; without an approver, a result that needs an approval fails
	Start  client.Options // how sessions start; a case's own model takes precedence
	Fork   events.Config  // the model or agent of forks, instead of their origin's; zero: the origin's
	Replay replay.Config  // what replays change; a case's own model takes precedence

	Data func(name string) ([]byte, error)      // what a session records about a model besides its name
	Open func(name string) (model.Model, error) // opens the model of a replay; nil: cases from journals have no model of their own

	Run      string        // part of the IDs of sessions: a new value runs everything again
	Repeats  int           // repeats of each case; 0: as the suite says
	Parallel int           // results at once; 0: 4
	Timeout  time.Duration // for a result, whose turn is then canceled, for a command and for a judge; 0: 10 minutes
	Journals string        // a folder for the journals of results, from which a later run reads them; "": none

	Progress func(c Case, r Result) // called for each result, in any order and one at a time; nil: never
}

// The defaults of a Config.
const (
	parallel = 4
	timeout  = 10 * time.Minute
)

// Run runs the results of a suite that do not exist yet, and checks all results. It returns an error if something cannot
// be run, not if a check fails. Finished results are kept. When ctx ends, open turns continue in their deployment.
func Run(ctx context.Context, s *Suite, cfg Config) (*Report, error) {
	if err := s.Check(); err != nil {
		return nil, err
	}
	if cfg.Parallel < 1 {
		cfg.Parallel = parallel
	}
	if cfg.Timeout <= 0 {
		cfg.Timeout = timeout
	}
	r := &runner{Config: cfg, suite: s}
	results := make([][]Result, len(s.Cases))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(cfg.Parallel)
	for i, c := range s.Cases {
		results[i] = make([]Result, r.repeats(c))
		for n := range results[i] {
			group.Go(func() (err error) {
				if ctx.Err() != nil {
					return context.Cause(ctx)
				}
				if results[i][n], err = r.result(ctx, c, n+1); err != nil {
					return fmt.Errorf("case %s, repeat %d: %w", c.Name, n+1, err)
				}
				r.tell(c, results[i][n])
				return nil
			})
		}
	}
	if err := group.Wait(); err != nil {
		return nil, err //nolint:wrapcheck // of this package
	}
	out := &Report{Version: version, Suite: s.Name, Passed: Rate{Of: len(s.Cases)}, Cases: make([]Done, len(s.Cases)), Regressions: []Change{}, Improved: []string{}, Missing: []string{}}
	for i, c := range s.Cases {
		if out.Cases[i] = done(c, results[i]); out.Cases[i].Passed {
			out.Passed.Passed++
		}
	}
	return out, nil
}

// runner runs a suite.
type runner struct {
	Config

	suite *Suite
	mu    sync.Mutex // held while Progress runs
}

func (r *runner) tell(c Case, res Result) {
	if r.Progress == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.Progress(c, res)
}

func (r *runner) repeats(c Case) int {
	for _, n := range []int{r.Repeats, c.Repeats, r.suite.Repeats} {
		if n > 0 {
			return n
		}
	}
	return 1
}

// result runs a case once, unless it has run, and checks it.
func (r *runner) result(ctx context.Context, c Case, n int) (out Result, err error) {
	what, err := r.plan(ctx, c)
	if err != nil {
		return out, err
	}
	id := what.id(r, c, n)
	records, kept, err := r.kept(id, c.Journal != "")
	if err == nil && records == nil {
		records, kept, err = what.run(ctx, id)
	}
	if err != nil {
		return out, err
	}
	f := read(records)
	if f.ended() {
		if err := r.keep(id, records); err != nil {
			return out, err
		}
	}
	out = Result{
		Session: id, Replay: c.Journal != "", Kept: kept, Outcome: f.Outcome, Problems: []Failure{}, Rounds: f.Rounds, Calls: f.Calls,
		Tokens: f.Usage.TotalTokens(), CostMicros: f.Usage.CostMicros, Currency: f.Usage.Currency, Seconds: f.took.Seconds(),
	}
	if r.Journals != "" {
		out.Journal = r.file(id)
	}
	if f.Outcome != string(content.Completed) {
		out.Problems = append(out.Problems, Failure{"ends", ended(f)})
	}
	for _, check := range append(append([]Check{}, r.suite.Checks...), c.Checks...) {
		problem, err := r.check(ctx, check, id, f)
		if err != nil {
			return out, err
		}
		if problem != "" {
			out.Problems = append(out.Problems, Failure{check.String(), problem})
		}
	}
	out.Passed = len(out.Problems) == 0
	return out, nil
}

func ended(f facts) string {
	switch {
	case f.Outcome == "":
		return "the last turn has not ended: it may wait for an approval"
	case f.fault != "":
		return f.Outcome + ": " + f.fault
	}
	return "the last turn ended with " + f.Outcome
}

func (r *runner) check(ctx context.Context, c Check, id content.SessionID, f facts) (string, error) {
	switch {
	case c.Command != "":
		return command(ctx, c.Command, r.suite.Folder, id, f.answer, r.Timeout)
	case c.Judge != nil:
		return r.judge(ctx, *c.Judge, id, f)
	}
	return c.problem(f), nil
}

func (r *runner) file(id content.SessionID) string {
	return filepath.Join(r.Journals, string(id)+".jsonl")
}

// kept reads the journal of a result from its file, if there is one.
func (r *runner) kept(id content.SessionID, replay bool) ([]journal.Record, bool, error) {
	if r.Journals == "" {
		return nil, false, nil
	}
	records, err := collect(audit.ImportFile(r.file(id)))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, false, nil
	}
	if err == nil && (!read(records).ended() || !replay && records[0].Entry.Session != id) { // a replay has the ID of its origin
		err = fmt.Errorf("%s is not the journal of this result", r.file(id))
	}
	if err != nil {
		return nil, false, fmt.Errorf("%w: remove the file to run the result again", err)
	}
	return records, true, nil
}

// keep writes the journal of a result that has ended.
func (r *runner) keep(id content.SessionID, records []journal.Record) error {
	if _, err := os.Stat(r.file(id)); r.Journals == "" || err == nil {
		return nil
	}
	f, err := renameio.NewPendingFile(r.file(id), renameio.WithPermissions(0o600))
	if err != nil {
		return fmt.Errorf("keep a journal: %w", err)
	}
	defer func() { _ = f.Cleanup() }() // does nothing once the file has its name
	err = audit.Export(f, journal.All(records))
	if err == nil {
		err = f.CloseAtomicallyReplace()
	}
	if err != nil {
		return fmt.Errorf("keep a journal: %w", err)
	}
	return nil
}

// collect returns all records of a journal, or the first error.
func collect(records iter.Seq2[journal.Record, error]) (all []journal.Record, err error) {
	for rec, err := range records {
		if err == nil {
			err = rec.Err
		}
		if err != nil {
			return nil, err
		}
		all = append(all, rec)
	}
	return all, nil
}
