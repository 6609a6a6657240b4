package cli

import "github.com/spf13/cobra"

// AgentHooksFlag lets the operator of a node say that it runs the hooks of every agent.
func AgentHooksFlag(cmd *cobra.Command, hooks *bool) {
	cmd.Flags().BoolVar(hooks, "agent-hooks", false,
		"run the hooks of every agent, also of one that somebody published or sent: whoever opens a session then runs commands here")
}
