package actor

import (
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/turnlog/turnlog/engine"
	"github.com/turnlog/turnlog/model"
)

// Config is how a node drives its sessions. Only Models is required.
type Config struct {
	// Models opens a session's model by the name and data that it was started with. An
	// error of it that has a method Elsewhere() bool, which is true, says that another
	// node may be able to: the session is handed over, and its call tried again there.
	Models func(name string, data []byte) (model.Model, error)

	Name     string        // "": a new ULID; one token
	Capacity int           // sessions at once; 0: 1,000
	Idle     time.Duration // how long an idle session is held before it is parked; 0: 2 s
	Sweep    time.Duration // between two searches for sessions that were not woken; 0: 5 s
	Snapshot uint64        // entries between two snapshots, more in long sessions; 0: 500

	Effects engine.Config // permissions, hooks, mutators, memory
	// Agents makes the agents that sessions are of, whose hooks and mutators come after
	// those of Effects; nil: a session that names one is refused.
	Agents Agents
	// Policy names what Effects.Permissions decide. A session that comes to a node with
	// another name, or with other hooks or mutators, records that. "": permissions are not
	// told apart.
	Policy  string
	Logger  *zap.Logger // nil: silent
	Metrics Metrics     // nil: none
}

// Metrics counts what a node does. Implementations are safe for concurrent use.
type Metrics interface {
	// SessionTaken counts run tokens that were taken.
	SessionTaken()
	// SessionLeft counts how sessions were left: parked, drained, handed (to a
	// node that has its model), fenced, lost or broken.
	SessionLeft(how string)
	// CommandHandled counts commands by name and by what became of them.
	CommandHandled(name, outcome string)
	// EntryAppended measures appends.
	EntryAppended(events int, took time.Duration)
	// EffectStarted counts model calls and tool calls.
	EffectStarted(kind string)
}

// Causes with which a driver's context ends.
var (
	// ErrDrain ends drivers whose node is shutting down: they hand their tokens over.
	ErrDrain = errors.New("node is draining")
	// ErrFenced ends a driver that found another one's entry, and must neither
	// acknowledge nor return its token, or that could not tell what became of its own.
	ErrFenced = errors.New("driver is fenced")
	// ErrLeaseLost ends a driver that may not hold its token any more.
	ErrLeaseLost = errors.New("run token is lost")
)

func (c Config) withDefaults() Config {
	if c.Capacity == 0 {
		c.Capacity = 1000
	}
	if c.Idle == 0 {
		c.Idle = 2 * time.Second
	}
	if c.Sweep == 0 {
		c.Sweep = 5 * time.Second
	}
	if c.Snapshot == 0 {
		c.Snapshot = 500
	}
	if c.Logger == nil {
		c.Logger = zap.NewNop()
	}
	if c.Metrics == nil {
		c.Metrics = noMetrics{}
	}
	return c
}

func (c Config) validate() error {
	switch {
	case c.Models == nil:
		return errors.New("node config: Models is required")
	case c.Capacity < 0:
		return fmt.Errorf("node config: Capacity %d: use a positive number of sessions", c.Capacity)
	}
	return nil
}

type noMetrics struct{}

func (noMetrics) SessionTaken()                    {}
func (noMetrics) SessionLeft(string)               {}
func (noMetrics) CommandHandled(string, string)    {}
func (noMetrics) EntryAppended(int, time.Duration) {}
func (noMetrics) EffectStarted(string)             {}
