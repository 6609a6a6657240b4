package cli

import (
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
	"github.com/spf13/pflag"

	"github.com/turnlog/turnlog/internal/release"
)

// manual returns the command that writes a manual page for each command of its program.
func manual() *cobra.Command {
	return &cobra.Command{
		Use:    "man DIR",
		Short:  "Write the manual pages of all commands into a folder",
		Hidden: true, // it is for packagers
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := os.MkdirAll(args[0], 0o755); err != nil { //nolint:gosec // pages are for everybody
				return fmt.Errorf("write manual pages: %w", err)
			}
			root := cmd.Root()
			literal(root)
			header := &doc.GenManHeader{Source: "Turnlog " + release.Version(), Manual: "Turnlog"}
			if err := doc.GenManTree(root, header, args[0]); err != nil {
				return fmt.Errorf("write manual pages: %w", err)
			}
			return nil
		},
	}
}

// plain escapes text that the generator would interpret as Markdown.
func plain(text string) string {
	return strings.NewReplacer(`\`, `\\`, "*", `\*`, "_", `\_`, "<", `\<`, "[", `\[`, "#", `\#`).Replace(text)
}

// literal makes the help of a command and its subcommands look the same in a manual page as in a terminal.
func literal(cmd *cobra.Command) {
	cmd.DisableAutoGenTag = true
	cmd.InitDefaultHelpFlag()
	cmd.LocalFlags().VisitAll(func(f *pflag.Flag) { f.Usage = plain(f.Usage) })
	cmd.Long = described(cmd.Long)
	for _, sub := range cmd.Commands() {
		literal(sub)
	}
}

// described returns a description with its indented lines as blocks.
func described(text string) string {
	var out strings.Builder
	inBlock := false
	for line := range strings.Lines(text) {
		if indented := strings.HasPrefix(line, "  "); indented != inBlock {
			inBlock = indented
			out.WriteString("```\n")
		}
		if !inBlock {
			line = plain(line)
		}
		out.WriteString(line)
	}
	if inBlock {
		out.WriteString("\n```")
	}
	return out.String()
}
