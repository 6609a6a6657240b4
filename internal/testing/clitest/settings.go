package clitest

import (
	"encoding/json"
	"maps"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/turnlog/turnlog/internal/settings"
)

// Settings returns the expected files of the list of settings for a command and its subcommands. Their paths are for a test two
// folders below the repository's root.
func Settings(t testing.TB, root *cobra.Command) map[string]string {
	t.Helper()
	files := make(map[string]string)
	for _, sub := range root.Commands() {
		maps.Copy(files, Settings(t, sub))
	}
	if root.Flags().Lookup(settings.FileFlag) == nil {
		return files
	}
	p := settings.Describe(root)
	text, err := json.MarshalIndent(p, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	files[filepath.Join("../../internal/settings/programs", strings.ReplaceAll(p.Command, " ", "-")+".json")] = string(text) + "\n"
	return files
}
