package actor

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"github.com/oklog/ulid/v2"
	"go.uber.org/zap"

	"github.com/turnlog/turnlog/audit/keys"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/engine"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/model"
	"github.com/turnlog/turnlog/policy/permission"
	"github.com/turnlog/turnlog/worker/task"
)

// Config is how a node drives its sessions. Only Models is required.
type Config struct {
	// Models opens a session's model by the name and data that it was started with. If its
	// error has a method Elsewhere() bool that returns true, another node may be able to
	// open the model: the session is handed over, and the call retried there.
	Models func(name string, data []byte) (model.Model, error)

	// Scripted says that Models opens scripted models. Doctor warns about them in production: the user who starts
	// a session writes its script.
	Scripted bool

	Name     string        // "": a new ULID; one token
	Capacity int           // sessions at once; 0: 1,000
	Idle     time.Duration // how long an idle session is held before it parks; 0: 2 s
	Sweep    time.Duration // time between two searches for sessions whose wake was lost; 0: 5 s
	Snapshot uint64        // entries between two snapshots; 0: 500
	// WorkerPatience is how long a node keeps offering the tools of a worker that left, and how long a call
	// waits for a worker of its queue before it counts as lost; 0: 1 min.
	WorkerPatience time.Duration

	// Local is the queue of a worker in this process. The node's sessions prefer its tools to those of other
	// workers. Run that worker in the node's process, with Local as its Queue and its Offers. Nil: none.
	Local *task.Local
	// Drain is how long a node that stops waits for the calls of Local, as the worker's DrainTimeout says; 0:
	// 10 s.
	Drain time.Duration

	Effects engine.Config // permissions, hooks, mutators, notes
	// Agents makes the sessions' agents. Their hooks and mutators run after those of Effects. Nil: a session
	// that names an agent is refused.
	Agents Agents
	// Policy limits what sessions, agents and turns may do; they can only narrow it. Sessions record the part
	// that applies to them. Nil: permission.Default.
	Policy *permission.Deployment
	// Version names the version of Effects.Permissions. A session that moves to a node with another version, or
	// with other hooks or mutators, records the change. "": all versions are the same.
	Version string
	// Key signs what the node writes: entries and commands to other sessions. Nil: nothing is signed.
	Key *keys.Signer
	// Root is the public key of the root that signs the cell's directory of keys. The node then refuses
	// entries, commands and results with a wrong signature, or without one where the directory requires it. "":
	// nothing is checked.
	Root    string
	Logger  *zap.Logger // nil: silent
	Metrics Metrics     // nil: none
}

// Metrics counts what a node does. Implementations are safe for concurrent use.
type Metrics interface {
	// SessionTaken counts taken run tokens.
	SessionTaken()
	// SessionLeft counts how sessions were left: parked, drained, handed (to another node), fenced, lost,
	// broken, aside (set aside, so that no node drives it) or absent (it does not exist). While many tokens
	// wait, also discarded (it has no command) or postponed (its senders have used their share of the node).
	SessionLeft(how string)
	// CommandHandled counts commands by name and outcome.
	CommandHandled(name, outcome string)
	// EntryAppended measures appends. If over is true, the entry takes over a session that its last driver did
	// not park.
	EntryAppended(e events.Entry, over bool, took time.Duration)
	// EffectStarted counts model calls and tool calls.
	EffectStarted(kind string)
}

// Causes that end a driver's context.
var (
	// ErrDrain ends the drivers of a node that shuts down. They hand their tokens over.
	ErrDrain = errors.New("node is draining")
	// ErrFenced ends a driver that found another driver's entry, so that the token is no longer its own, or
	// that does not know whether its append succeeded.
	ErrFenced = errors.New("driver is fenced")
	// ErrLeaseLost ends a driver that may no longer hold its token.
	ErrLeaseLost = errors.New("run token is lost")
)

func (c Config) withDefaults() Config {
	c.Name = cmp.Or(c.Name, ulid.Make().String())
	c.Capacity = cmp.Or(c.Capacity, 1000)
	c.Idle = cmp.Or(c.Idle, 2*time.Second)
	c.Sweep = cmp.Or(c.Sweep, 5*time.Second)
	c.Snapshot = cmp.Or(c.Snapshot, 500)
	c.WorkerPatience = cmp.Or(c.WorkerPatience, time.Minute)
	c.Drain = cmp.Or(c.Drain, 10*time.Second)
	c.Logger = cmp.Or(c.Logger, zap.NewNop())
	if c.Policy == nil {
		c.Policy = new(permission.Default())
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
	case c.WorkerPatience < 0:
		return fmt.Errorf("node config: WorkerPatience %v: use a positive time", c.WorkerPatience)
	case c.Name != "" && !content.IsToken(c.Name):
		return fmt.Errorf("node config: Name %q: use letters, digits, '-' or '_'", c.Name)
	}
	return nil
}

type noMetrics struct{}

func (noMetrics) SessionTaken()                                   {}
func (noMetrics) SessionLeft(string)                              {}
func (noMetrics) CommandHandled(string, string)                   {}
func (noMetrics) EntryAppended(events.Entry, bool, time.Duration) {}
func (noMetrics) EffectStarted(string)                            {}
