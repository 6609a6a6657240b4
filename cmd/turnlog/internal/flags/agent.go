package flags

import (
	"path/filepath"

	"github.com/turnlog/turnlog/cmd/turnlog/internal/app"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/internal/cli"
	"github.com/turnlog/turnlog/internal/cli/toolset"
	"github.com/turnlog/turnlog/policy/agentfile"
)

// KnownAgents returns what this program knows about agents whose files are in a folder.
func KnownAgents(a *app.App, dir string) agentfile.Known {
	return agentfile.Known{Models: Models(a).In(dir).Check, Tools: toolset.CheckPattern, SameFolder: true, Held: true}
}

// LoadFile reads an agent file and checks all of it.
func LoadFile(a *app.App, file string) (*agentfile.Definition, error) {
	d, err := KnownAgents(a, filepath.Dir(file)).Load(file)
	if err != nil {
		return nil, cli.Usage("%w", err)
	}
	return d, nil
}

// LoadAgent reads the agent file that the flag names. For an agent's name it returns only
// the reference.
func LoadAgent(a *app.App, agent string, local bool) (*agentfile.Definition, *events.AgentRef, error) {
	switch {
	case agent == "":
		return nil, nil, nil
	case agentfile.IsFile(agent):
		d, err := LoadFile(a, agent)
		if err != nil {
			return nil, nil, err
		}
		ref, err := d.Ref()
		return d, ref, err
	case local:
		return nil, nil, cli.Usage("--agent %s: in this process name a file, such as %s.yaml", agent, agent)
	}
	return nil, &events.AgentRef{Name: agent}, nil
}

// HintMissing prints the tools that the agent's file names but no worker offers.
func HintMissing(a *app.App, d *agentfile.Definition, offered []string) {
	for _, what := range d.Missing(offered) {
		a.Hint("agent %s: %s", d.Name, what)
	}
}
