package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/turnlog/turnlog/content"
)

// Choice is a flag with a fixed set of values.
type Choice struct {
	value   string
	allowed []string
}

// NewChoice returns a choice of the allowed words. The first is the default; "" makes the
// flag optional.
func NewChoice(allowed ...string) *Choice { return &Choice{value: allowed[0], allowed: allowed} }

// OutputFlag adds the flag -o, --output to cmd.
func OutputFlag(cmd *cobra.Command, formats ...string) *Choice {
	c := NewChoice(formats...)
	c.Register(cmd, "output", "o", "output `format`")
	return c
}

// Register adds the flag to cmd, with its words in the help and in shell completion.
func (c *Choice) Register(cmd *cobra.Command, name, short, usage string) {
	c.registerIn(cmd.Flags(), c, cmd, name, short, usage)
}

func (c *Choice) registerIn(fs *pflag.FlagSet, as pflag.Value, cmd *cobra.Command, name, short, usage string) {
	fs.VarP(as, name, short, usage+": "+strings.Join(c.words(), ", "))
	complete := cobra.FixedCompletions(c.words(), cobra.ShellCompDirectiveNoFileComp)
	_ = cmd.RegisterFlagCompletionFunc(name, complete) // the flag exists
}

// words returns the values that the command line can name.
func (c *Choice) words() []string {
	return slices.DeleteFunc(slices.Clone(c.allowed), func(word string) bool { return word == "" })
}

// String returns the chosen word.
func (c *Choice) String() string { return c.value }

// Set implements pflag.Value.
func (c *Choice) Set(word string) error {
	if !slices.Contains(c.allowed, word) {
		return fmt.Errorf("choose one of %s", strings.Join(c.words(), ", "))
	}
	c.value = word
	return nil
}

// Type implements pflag.Value.
func (c *Choice) Type() string { return "word" }

// ParseSession parses a session's ID from the command line.
func ParseSession(text string) (content.SessionID, error) {
	id, err := content.ParseSessionID(text)
	if err != nil {
		return "", Usage("%w", err)
	}
	return id, nil
}

// ParseSessions parses IDs of sessions from the command line.
func ParseSessions(args []string) (ids []content.SessionID, err error) {
	for _, arg := range args {
		id, err := ParseSession(arg)
		if err != nil {
			return nil, err
		}
		ids = append(ids, id)
	}
	return ids, nil
}

// AgentHooksFlag adds the flag with which the operator of a node allows the hooks of every agent to
// run there.
func AgentHooksFlag(cmd *cobra.Command, hooks *bool) {
	cmd.Flags().BoolVar(hooks, "agent-hooks", false,
		"run the hooks of every agent, including published ones; opening a session can then run commands on this machine")
}

// PolicyFlag adds the flag with which the operator of a node says what sessions may do.
func PolicyFlag(cmd *cobra.Command, file *string) {
	cmd.Flags().StringVar(file, "policy", "",
		"`file` of rules for the tool calls of all sessions; default: read-only calls run, all others need approval")
	_ = cmd.MarkFlagFilename("policy", "yaml", "yml", "json") // the flag exists
}
