package clitest

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Manual checks the manual pages that a program writes when execute runs it: each command that its help lists has one,
// which has each of its flags.
func Manual(t *testing.T, root *cobra.Command, execute func(context.Context, *cobra.Command) int) {
	t.Helper()
	dir := t.TempDir()
	root.SetArgs([]string{"man", dir})
	if code := execute(t.Context(), root); code != 0 {
		t.Fatalf("man exits with %d", code)
	}
	pages := 0
	var visit func(*cobra.Command)
	visit = func(cmd *cobra.Command) {
		pages++
		text, err := os.ReadFile(filepath.Join(dir, strings.ReplaceAll(cmd.CommandPath(), " ", "-")+".1"))
		if err != nil {
			t.Error(err)
		}
		if strings.Contains(string(text), "spf13") {
			t.Errorf("the page of %q is not ours", cmd.CommandPath())
		}
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			if !f.Hidden && !strings.Contains(string(text), `\fB--`+f.Name+`\fP`) {
				t.Errorf("the page of %q lacks --%s", cmd.CommandPath(), f.Name)
			}
		})
		for _, sub := range cmd.Commands() {
			if sub.IsAvailableCommand() {
				visit(sub)
			}
		}
	}
	visit(root)
	if files, err := os.ReadDir(dir); err != nil || len(files) != pages {
		t.Errorf("%d pages of %d commands, %v", len(files), pages, err)
	}
}
