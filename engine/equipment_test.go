package engine_test

import (
	"slices"
	"testing"

	"github.com/turnlog/turnlog/engine"
	"github.com/turnlog/turnlog/extension"
	"github.com/turnlog/turnlog/tool"
)

func TestTheFirstMatchingPatternDecidesWhetherAToolIsOffered(t *testing.T) {
	t.Parallel()
	patterns := []string{"fs_read_file", "!fs_*", "*"}
	for name, want := range map[string]bool{"fs_read_file": true, "fs_write_file": false, "shell_exec": true} {
		if got := engine.Offered(patterns, tool.Spec{Name: name}); got != want {
			t.Errorf("%s is offered: %t, want %t", name, got, want)
		}
	}
	if engine.Offered([]string{"!fs_*"}, tool.Spec{Name: "shell_exec"}) {
		t.Error("a tool without a matching pattern is offered")
	}
}

func TestTheHooksOfAnAgentRunAfterItsHosts(t *testing.T) {
	t.Parallel()
	host := engine.Config{Hooks: []extension.Hook{hook{name: "host"}}}
	var names []string
	for _, h := range host.With(engine.Equipment{Hooks: []extension.Hook{hook{name: "agent"}}}).Hooks {
		names = append(names, h.Name())
	}
	if !slices.Equal(names, []string{"host", "agent"}) || len(host.Hooks) != 1 {
		t.Errorf("hooks = %q, and the host has %d", names, len(host.Hooks))
	}
}
