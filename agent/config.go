package agent

import (
	"fmt"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/engine"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/events/journal"
	"github.com/turnlog/turnlog/extension"
	"github.com/turnlog/turnlog/model"
	"github.com/turnlog/turnlog/policy/permission"
	"github.com/turnlog/turnlog/tool"
	"github.com/turnlog/turnlog/worker/task"
)

// Config configures an Agent. Only Model is required.
type Config struct {
	Model        model.Model    // required
	SystemPrompt string         // "": none; otherwise one System item before Transcript
	Transcript   []content.Item // nil: empty; passive: not merged, not observed
	Input        []content.Item // nil: the first Next returns AwaitingInput; otherwise queued in every new session

	Tools     []tool.Source  // nil: the model can call nothing; searched in order
	Offered   []string       // name patterns of the Tools to use, see engine.Offered; nil: all
	Collision tool.Collision // zero: tool.FirstWins
	// Policy is what this program allows its sessions; see docs/permissions.md. Each session records
	// what applies to it. Nil: permission.Default, so calls that only read run, and a person is asked
	// about all others. For no questions, use permission.AllowAll().
	Policy      *permission.Deployment
	Permissions tool.Permissions   // nil: tool.AllowAll
	Rules       []events.Rule      // nil: none; recorded with the session; they only restrict Policy, as Permissions do
	Routes      []events.RouteRule // nil: as each tool declares; recorded with the session; needs task.Async
	Resources   any                // nil: none; passed to every tool call
	TaskManager task.Manager       // nil: task.Simple(), inline and in call order
	MaxParallel int                // 0, 1: one at a time; n: at most n; negative: the whole round; more than one needs task.Async
	OnToolError ToolErrorPolicy    // zero: ReportToModel
	ApprovalTTL time.Duration      // 0: approvals do not expire; otherwise the default for questions without their own time

	Mutators            []extension.Mutator            // nil: none; in order
	Compaction          extension.Mutator              // nil: the transcript grows without bound; runs after Mutators
	Hooks               []extension.Hook               // nil: none; in order
	Observers           []extension.Observer           // nil: none; inline, in order
	TranscriptObservers []extension.TranscriptObserver // nil: none
	Approver            extension.Approver             // nil: facades stop with *ApprovalPendingError; Next never asks it
	Memory              extension.Notes                // nil: tasks recall and store nothing
	Durable             extension.Durable              // nil: model and tools are called directly
	Blobs               engine.Blobs                   // nil: none; the blobs that input refers to, see content.BlobPart
	Root                string                         // "": the process's working directory; where verifiers run

	Limits        events.Limits       // per turn; zero: none
	SessionLimits events.Limits       // over the session's life; zero: none
	Retry         events.Retry        // zero: repeatable errors of models for 5 minutes; ModelAttempts 1: never
	Cache         *model.CacheRequest // nil: none; default of every model call
	Output        *events.Output      // nil: answers are free text; otherwise they fit a schema, or the turn ends with *OutputError
	Journal       journal.Journal     // nil: journal.NewMemory()
	Logger        *zap.Logger         // nil: silent

	Agent *events.AgentRef // nil: none; recorded with the session: the definition of this configuration
}

// ToolErrorPolicy is the effect of a failed tool call on the turn.
type ToolErrorPolicy int

// The policies. FailRun ends the turn with *ToolError, but never for a hint to
// retry, for missing authorization, or for a person's denial.
const (
	ReportToModel ToolErrorPolicy = iota
	FailRun
)

// ConfigError is returned by New for a configuration that cannot work. Correct the field.
type ConfigError struct{ Field, Problem string }

// Error names the field and its problem.
func (e *ConfigError) Error() string { return fmt.Sprintf("agent config: %s: %s", e.Field, e.Problem) }

// TranscriptError is returned by New for a transcript in which a tool call has no result or several,
// or a result has no call.
type TranscriptError struct {
	Index   int
	Call    content.CallID
	Problem string
}

// Error names the item and the call.
func (e *TranscriptError) Error() string {
	return fmt.Sprintf("agent config: Transcript: item %d: call %s %s", e.Index, e.Call, e.Problem)
}

func (c Config) withDefaults() Config {
	if c.Journal == nil {
		c.Journal = journal.NewMemory()
	}
	if c.Policy == nil {
		c.Policy = new(permission.Default())
	}
	if c.Logger == nil {
		c.Logger = zap.NewNop()
	}
	if c.TaskManager == nil {
		c.TaskManager = task.Simple()
	}
	if c.SystemPrompt != "" {
		c.Transcript = slices.Concat([]content.Item{content.SystemText(c.SystemPrompt)}, c.Transcript)
	}
	if c.Compaction != nil {
		c.Mutators = slices.Concat(c.Mutators, []extension.Mutator{c.Compaction})
	}
	return c
}

func (c Config) validate() error {
	switch {
	case c.Model == nil:
		return &ConfigError{"Model", "is required; model/demo and model/scripted need no network"}
	case c.Cache != nil && !c.Cache.Valid():
		return &ConfigError{"Cache", "has an unknown mode, retention or breakpoint"}
	case c.ApprovalTTL < 0:
		return &ConfigError{"ApprovalTTL", fmt.Sprintf("is %s; use a positive time, or 0 for approvals that do not expire", c.ApprovalTTL)}
	case slices.Contains(c.Tools, nil):
		return &ConfigError{"Tools", "holds a nil source"}
	case slices.Contains(c.Mutators, nil):
		return &ConfigError{"Mutators", "holds a nil mutator"}
	case slices.Contains(c.Hooks, nil):
		return &ConfigError{"Hooks", "holds a nil hook"}
	}
	if err := permission.Rules(c.Rules).Check(); err != nil {
		return &ConfigError{"Rules", err.Error()}
	}
	for _, r := range c.Routes {
		if err := r.Check(); err != nil {
			return &ConfigError{"Routes", err.Error()}
		}
	}
	if len(c.Routes) > 0 && c.TaskManager == task.Simple() {
		return &ConfigError{"Routes", "task.Simple runs every call in the foreground; use task.Async"}
	}
	if c.Output != nil {
		if err := engine.CheckSchema(c.Output.Schema); err != nil {
			return &ConfigError{"Output", err.Error()}
		}
	}
	if name := repeated(c.Mutators); name != "" {
		return &ConfigError{"Mutators", "holds two mutators named " + name + "; the journal tells them apart by name"}
	}
	if m, at := misplaced(c.Mutators); m != "" {
		return &ConfigError{"Mutators", m + " is registered at " + string(at) + ", which has no mutators"}
	}
	if i, call, problem := content.Unpaired(c.Transcript); problem != "" {
		return &TranscriptError{Index: i, Call: call, Problem: problem}
	}
	return nil
}

// misplaced finds a mutator that is registered at a point without mutators.
func misplaced(ms []extension.Mutator) (name string, at extension.Point) {
	for _, m := range ms {
		for _, p := range extension.PointsOf(m) {
			if !p.ForMutators() {
				return m.Name(), p
			}
		}
	}
	return "", ""
}

// repeated returns a name that two mutators share, or "".
func repeated(ms []extension.Mutator) string {
	var names []string
	for _, m := range ms {
		if slices.Contains(names, m.Name()) {
			return m.Name()
		}
		names = append(names, m.Name())
	}
	return ""
}
