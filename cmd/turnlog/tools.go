package main

import (
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/turnlog/turnlog/tool"
	"github.com/turnlog/turnlog/tool/fs"
	"github.com/turnlog/turnlog/tool/shell"
)

// toolFlags say which tools the worker in this process has.
type toolFlags struct {
	sets       string
	root       string
	allowWrite bool
}

func (f *toolFlags) register(cmd *cobra.Command) {
	fs := cmd.Flags()
	fs.StringVar(&f.sets, "tools", "fs", "`sets` of tools, separated by commas: fs; shell runs any command, as this user")
	fs.StringVar(&f.root, "root", ".", "`directory` that the tools work in; file tools cannot leave it")
	fs.BoolVar(&f.allowWrite, "allow-write", false, "let the file tools write; without it they only read")
}

// toolFlagNames are the flags that only count where a worker is started.
func toolFlagNames() []string { return []string{"tools", "root", "allow-write"} }

// open makes the tools that the flags name, a source for each set.
func (f toolFlags) open() ([]tool.Source, error) {
	root, err := filepath.Abs(f.root)
	if err != nil {
		return nil, usageError("--root %s: %w", f.root, err)
	}
	names := strings.Split(f.sets, ",")
	slices.Sort(names)
	var sources []tool.Source
	for _, name := range slices.Compact(names) {
		tools, err := f.set(strings.TrimSpace(name), root)
		if err != nil {
			return nil, err
		}
		source, err := tool.NewRegistry(name, tools...)
		if err != nil {
			return nil, usageError("--tools %s: %w", name, err)
		}
		sources = append(sources, source)
	}
	return sources, nil
}

func (f toolFlags) set(name, root string) (tools []tool.Tool, err error) {
	switch name {
	case "fs":
		tools, err = fs.New(root, fs.Options{Write: f.allowWrite})
	case "shell":
		var exec tool.Tool
		exec, err = shell.New(root, shell.Options{})
		tools = []tool.Tool{exec}
	default:
		return nil, usageError("--tools: there is no set %q: use fs, or fs,shell", name)
	}
	if err != nil {
		return nil, usageError("--tools %s: %w", name, err)
	}
	return tools, nil
}
