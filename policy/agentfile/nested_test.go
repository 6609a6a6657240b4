package agentfile_test

import (
	"strings"
	"testing"

	"github.com/turnlog/turnlog/internal/testing/allocated"
	"github.com/turnlog/turnlog/policy/agentfile"
)

// A definition in a request is 64 KiB of JSON at most, and must not exhaust a node's memory.
func TestNestedDefinitionsAreRefused(t *testing.T) { //nolint:paralleltest // it measures allocations
	var indented strings.Builder
	for n := range 300 {
		indented.WriteString(strings.Repeat(" ", n) + "a:\n")
	}
	for name, text := range map[string]string{
		"lists":       strings.Repeat("[", 30_000) + strings.Repeat("]", 30_000),
		"objects":     strings.Repeat(`{"a":`, 10_000) + "1" + strings.Repeat("}", 10_000),
		"a field":     `{"model":"demo","output":{"schema":` + strings.Repeat(`{"not":`, 9_000) + "{}" + strings.Repeat("}", 9_000) + "}}",
		"indentation": indented.String(),
		"entries":     strings.Repeat("- ", 30_000) + "a",
	} {
		var err error
		took := allocated.By(func() { _, err = agentfile.Parse("a.yaml", []byte(text), nil) })
		if err == nil || !strings.Contains(err.Error(), "nest deeper than 64") || took > 64<<20 {
			t.Errorf("%s: %.200v, %d bytes of memory", name, err, took)
		}
	}
}
