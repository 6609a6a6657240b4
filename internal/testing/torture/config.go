package torture

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/turnlog/turnlog/actor"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/embedded"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/internal/natscli"
	"github.com/turnlog/turnlog/internal/testing/cell"
	"github.com/turnlog/turnlog/tool"
	"github.com/turnlog/turnlog/worker"
)

// Config configures a run. The zero value runs for half a minute on a cluster in this process. The
// faults begin once as many turns have begun as there are concurrent sessions. After the faults,
// sessions start and end until as many calls have had results, so that every run tests something.
type Config struct {
	Seed     uint64        // decides faults and workload
	Duration time.Duration // of the faults; 0: 30 s
	Rest     time.Duration // how long sessions have to come to rest afterwards; 0: 60 s

	Sessions int  // at once; 0: 24
	Nodes    int  // 0: 3
	Workers  int  // 0: 3
	Local    bool // nodes run the tools themselves

	// Kinds of faults; nil: all possible ones.
	Kinds   []Kind
	Streams []string      // streams that may be rolled back; nil: all of INBOX, NAMED, TIMERS, RUN, TASKS, SCHEDULES and NAMED_SCHEDULES
	Gap     time.Duration // between two faults, on average; 0: 750 ms

	// Servers are the caller's own; nil: a cluster in this process. A run creates a namespace
	// on them and removes it at the end. It does not stop them.
	Servers  *natscli.Flags
	Replicas int // of the streams on the caller's servers; 0: 1
	// Server is the caller's own, in this process and without sockets, so that a run works in
	// a bubble of testing/synctest. The run leaves its journals there.
	Server *embedded.Server

	Workload Workload
	// Clients are additional processes, whose context ends with the faults.
	Clients []func(context.Context, *cell.Process)

	Dir     string        // where the evidence of violations goes; "": the system's temporary folder
	Logger  *zap.Logger   // of nodes, workers and clients; nil: silent
	OnFault func(f Fault) // called with each fault as it happens; nil: not called
	OnSend  func(error)   // called with the result of each command that a user sends; nil: not called
	OnCalm  func()        // called when the faults are over and Clients have returned; nil: not called
}

// Workload is what the sessions of a run do. In the zero value, models follow scripts and the
// runs of every call are counted and compared with the journals.
type Workload struct {
	Config func(content.SessionID) events.Config
	Node   actor.Config // of every node
	Worker worker.Config
	Tools  []tool.Tool   // nil: those that count their runs
	Tail   time.Duration // how long after its end a call may still report
}

const (
	defaultDuration = 30 * time.Second
	defaultRest     = time.Minute
	defaultGap      = 750 * time.Millisecond
	defaultSessions = 24
	defaultParties  = 3

	maxSessions = 2_000
	maxParties  = 50
)

// withDefaults returns a copy with zero values replaced.
func (c Config) withDefaults() Config {
	c.Duration, c.Rest, c.Gap = cmp.Or(c.Duration, defaultDuration), cmp.Or(c.Rest, defaultRest), cmp.Or(c.Gap, defaultGap)
	c.Sessions, c.Replicas = cmp.Or(c.Sessions, defaultSessions), cmp.Or(c.Replicas, 1)
	c.Nodes, c.Workers = cmp.Or(c.Nodes, defaultParties), cmp.Or(c.Workers, defaultParties)
	if c.Kinds == nil {
		c.Kinds = possible(c.callersServers())
	}
	if c.Streams == nil {
		c.Streams = rolling()
	}
	if c.OnSend == nil {
		c.OnSend = func(error) {}
	}
	if c.OnCalm == nil {
		c.OnCalm = func() {}
	}
	if c.Logger == nil {
		c.Logger = zap.NewNop()
	}
	if c.OnFault == nil {
		c.OnFault = func(Fault) {}
	}
	return c
}

// callersServers reports whether the servers are the caller's, which a run does not stop.
func (c Config) callersServers() bool { return c.Servers != nil || c.Server != nil }

// Validate returns an error if the configuration is not valid.
func (c Config) Validate() error {
	c = c.withDefaults()
	switch {
	case c.Duration < time.Second || c.Rest < time.Second:
		return fmt.Errorf("duration %v, rest %v: use a second or more", c.Duration, c.Rest)
	case c.Sessions < 1 || c.Sessions > maxSessions:
		return fmt.Errorf("%d sessions: use 1 to %d", c.Sessions, maxSessions)
	case c.Nodes < 1 || c.Nodes > maxParties || c.Workers < 1 || c.Workers > maxParties:
		return fmt.Errorf("%d nodes, %d workers: use 1 to %d of each", c.Nodes, c.Workers, maxParties)
	case c.Replicas < 1 || c.Replicas > 5:
		return fmt.Errorf("%d replicas: use 1 to 5", c.Replicas)
	case len(c.Kinds) == 0:
		return errors.New("no kinds of faults")
	}
	for _, s := range c.Streams {
		if !slices.Contains(rolling(), s) {
			return fmt.Errorf("stream %q: use some of %v", s, rolling())
		}
	}
	for _, k := range c.Kinds {
		if _, known := weights()[k]; !known {
			return fmt.Errorf("fault %q: use one of %v", k, possible(false))
		}
		if c.callersServers() && needsServers(k) {
			return fmt.Errorf("fault %q: only servers in this process can be stopped or controlled", k)
		}
	}
	return nil
}
