// Package flags holds the groups of flags that several turnlog commands share:
// how a session starts, what its calls may do, which agent and model it has, and
// when something happens.
//
// A group registers its flags on a command and turns their values into what
// clients send, so every command reads a flag the same way.
package flags

import (
	"path/filepath"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/turnlog/turnlog/cmd/turnlog/internal/app"
	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/internal/cli"
	"github.com/turnlog/turnlog/loop"
	"github.com/turnlog/turnlog/model"
	"github.com/turnlog/turnlog/policy/agentfile"
	"github.com/turnlog/turnlog/policy/permission"
)

// Session says how a session starts, or which one continues.
type Session struct {
	Rules

	ID       string
	OnBusy   *cli.Choice // nil: the command does not have the flag
	Agent    string
	AgentsMD *cli.Choice

	models    []string
	folder    string // for relative file names in models; "": the current directory
	system    string
	maxRounds int64
	patience  time.Duration
}

// Register adds the flags to cmd.
func (f *Session) Register(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.ID, "session", "", "`id` of the session to continue, or of the new session")
	f.RegisterNew(cmd)
}

// RegisterNew adds the flags that say how sessions start.
func (f *Session) RegisterNew(cmd *cobra.Command) {
	fs := cmd.Flags()
	registerModels(cmd, &f.models, "of a new session; an existing session changes to it", usualModel)
	fs.StringVar(&f.system, "system", "", "system `prompt` of a new session")
	fs.Int64Var(&f.maxRounds, "max-rounds", 0, "end a turn after this many `rounds`, each a model call and its tool calls; 0: no limit")
	fs.DurationVar(&f.patience, "model-patience", 0, "in a new session, retry a failing model call for this `duration`; default: that of the agent, else 5m")
	fs.StringVar(&f.Agent, "agent", "", "agent of a new session: its `file`, or its name in a deployment; see \"turnlog agents\"")
	f.AgentsMD = cli.NewChoice("none", "nearest", "all")
	f.AgentsMD.Register(cmd, "agents-md", "", "which AGENTS.md of --root and its parents a new session gets; default: that of the agent, else none")
	f.Rules.Register(cmd)
}

// RegisterStart adds only the flags for the default model and agent: sessions that name neither use them.
func (f *Session) RegisterStart(cmd *cobra.Command) {
	registerModels(cmd, &f.models, "of a session that names neither agent nor model", usualModel)
	cmd.Flags().StringVar(&f.Agent, "agent", "", "agent of a session that names neither agent nor model: its `file`, or its name in the deployment")
}

// RegisterFork adds only the flags that name a fork and say how it differs from its origin.
func (f *Session) RegisterFork(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.ID, "session", "", "`id` of the new session; default: generated")
	registerModels(cmd, &f.models, "of the fork", "that of the origin")
	cmd.Flags().StringVar(&f.Agent, "agent", "", "agent of the fork, with its own prompt and settings: its `file`, or its name in the deployment")
}

// Fork returns what replaces the origin's configuration in a fork: a model, an agent, or nothing.
func (f *Session) Fork(a *app.App) (events.Config, error) {
	switch {
	case f.Agent != "":
		start, err := f.Start(a, false)
		return start.Config, err
	case len(f.models) > 0:
		m, err := chooseModel(a, f.models, "", false)
		return events.Config{Model: m.Name, ModelData: m.Data}, err
	}
	return events.Config{}, nil
}

// RegisterReplay adds only the flags that name the model and the prompt of a replay.
func (f *Session) RegisterReplay(cmd *cobra.Command) {
	registerModels(cmd, &f.models, "of the replay", "that of the agent, else the recorded replies")
	cmd.Flags().StringVar(&f.system, "system", "", "system `prompt` in place of the recorded one")
	cmd.Flags().StringVar(&f.Agent, "agent", "", "agent whose model and prompt the replay uses: its `file`")
}

// RegisterEval adds only the flags that replace a suite's session settings, and the rules of the sessions.
func (f *Session) RegisterEval(cmd *cobra.Command) {
	registerModels(cmd, &f.models, "to evaluate", "that of the suite or of the agent, else "+usualModel)
	cmd.Flags().StringVar(&f.system, "system", "", "system `prompt`; default: that of the suite")
	cmd.Flags().StringVar(&f.Agent, "agent", "", "agent to evaluate: its `file`, or its name in a deployment; default: that of the suite")
	f.Rules.Register(cmd)
}

// Default sets what the flags leave out. File names in the model are relative to folder.
func (f *Session) Default(model, agent, system, folder string) {
	if f.Agent == "" && f.system == "" {
		f.Agent, f.system = agent, system
	}
	if len(f.models) == 0 && model != "" {
		f.models, f.folder = []string{model}, folder
	}
}

// Given opens the model that the flags or the agent's file name, in this process. It returns nil if they name none.
func (f *Session) Given(a *app.App, s Start) (model.Model, error) {
	if !s.Chosen && (s.Agent == nil || s.Agent.Model == "") {
		return nil, nil //nolint:nilnil // there is none
	}
	return Models(a).Open(s.Config.Model, s.Config.ModelData)
}

// Replay returns the model and the prompt that the flags or the agent's file name, in this process. They are nil or "" if not named.
func (f *Session) Replay(a *app.App) (m model.Model, system string, err error) {
	if f.Agent != "" && f.system != "" {
		return nil, "", cli.Usage("--system and --agent cannot be combined: the agent has its own prompt")
	}
	d, _, err := LoadAgent(a, f.Agent, true)
	if err != nil {
		return nil, "", err
	}
	models, folder, system := f.models, "", f.system
	if d != nil {
		system = d.System
		if len(models) == 0 && d.Model != "" {
			models, folder = []string{d.ModelName()}, filepath.Dir(f.Agent)
		}
	}
	switch {
	case len(models) > 0:
	case system != "":
		return nil, "", cli.Usage("--system needs --model: recorded replies do not depend on the prompt")
	default:
		return nil, "", nil
	}
	chosen, err := chooseModel(a, models, folder, true)
	if err != nil {
		return nil, "", err
	}
	m, err = Models(a).Open(chosen.Name, chosen.Data)
	return m, system, err
}

// RegisterBusy adds the flag of commands whose input may arrive while a turn is open.
func (f *Session) RegisterBusy(cmd *cobra.Command) {
	f.OnBusy = cli.NewChoice("queue", "steer", "interrupt", "reject")
	f.OnBusy.Register(cmd, "on-busy", "", "what to do while another turn of the session is open")
}

// Start is how a session starts.
type Start struct {
	Config       events.Config
	Agent        *agentfile.Definition // the config's agent, if it is known here
	Chosen       bool                  // the user named the model, so an existing session gets it
	System       string                // "": none
	Instructions []content.Item        // after the system prompt
}

// Open returns the command that starts the session, with its first input if there is any.
func (s Start) Open(first ...content.Item) commands.Command {
	open := commands.OpenSession{Config: s.Config, Input: first}
	if s.System != "" {
		open.Transcript = []content.Item{content.SystemText(s.System)}
	}
	open.Transcript = append(open.Transcript, s.Instructions...)
	return open
}

// Start returns the session that the flags describe, for this process or for a
// deployment.
func (f *Session) Start(a *app.App, local bool) (Start, error) {
	limits := f.Limits
	switch {
	case f.maxRounds < 0:
		return Start{}, cli.Usage("--max-rounds %d: use 1 or more, or 0 for no limit", f.maxRounds)
	case f.maxRounds > 0 && limits.MaxRounds > 0:
		return Start{}, cli.Usage("--max-rounds and --limit rounds=%d cannot be combined", limits.MaxRounds)
	}
	if f.patience < 0 {
		return Start{}, cli.Usage("--model-patience %v: use a duration like 30s or 1h", f.patience)
	}
	limits.MaxRounds = max(limits.MaxRounds, f.maxRounds)
	d, ref, err := LoadAgent(a, f.Agent, local)
	if err != nil {
		return Start{}, err
	}
	models, folder := f.models, f.folder
	if d != nil && len(models) == 0 && d.Model != "" {
		models, folder = []string{d.ModelName()}, filepath.Dir(f.Agent)
	}
	var m Model
	if ref == nil || d != nil || len(models) > 0 { // otherwise the nodes know the agent's model
		if m, err = chooseModel(a, models, folder, local); err != nil {
			return Start{}, err
		}
	}
	rules := f.List
	if len(rules) == 0 && ref == nil {
		rules = []events.Rule{{Tool: "*", Action: events.RuleGuard}}
	}
	return Start{System: f.system, Agent: d, Chosen: len(f.models) > 0, Config: events.Config{
		Model: m.Name, ModelData: m.Data, Agent: ref, Limits: limits, Rules: rules, Routes: f.Routes,
		Retry: events.Retry{ModelPatience: f.patience},
	}}, nil
}

// Policy returns the policy of a deployment in this process, which its user operates: the flags,
// then the rules in the agent file that the user chose, then the default. The user also chose
// the verifier.
func (s Start) Policy() permission.Deployment {
	rules := slices.DeleteFunc(slices.Clone(s.Config.Rules), func(r events.Rule) bool { return r.Action == events.RuleGuard })
	d := permission.Deploy("command line", append(rules, events.Rule{Tool: loop.VerifierTool, Action: events.RuleAllow})...)
	if s.Agent != nil {
		d.Rules = append(d.Rules, permission.ScopedRule{Tool: "*", Action: events.RuleAllow}) // as the agent's file narrows it
	}
	d.Rules = append(d.Rules, permission.Default().Rules...)
	return d
}

// SessionID returns the ID that the flags name, or "".
func (f *Session) SessionID() (content.SessionID, error) {
	if f.ID == "" {
		return "", nil
	}
	id, err := content.ParseSessionID(f.ID)
	if err != nil {
		return "", cli.Usage("--session: %w", err)
	}
	return id, nil
}

// BusyPolicy returns the policy with a name. The zero value is to steer.
func BusyPolicy(name string) events.OnBusy {
	if name == "steer" {
		return events.Steer
	}
	return events.OnBusy(name)
}
