package agentfile_test

import (
	"encoding/json"
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/google/go-cmp/cmp"
	"github.com/google/jsonschema-go/jsonschema"

	"github.com/turnlog/turnlog/policy/agentfile"
)

var update = flag.Bool("update", false, "write the schema and the reference into docs/")

const (
	schemaFile    = "../../docs/agent.schema.json"
	referenceFile = "../../docs/agent-file.md"
	marker        = "<!-- from here on made of the schema: go test ./policy/agentfile -update -->\n"
)

func TestThePublishedSchemaIsTheCodes(t *testing.T) {
	t.Parallel()
	want, err := agentfile.Schema()
	if err != nil {
		t.Fatal(err)
	}
	publish(t, schemaFile, string(want))
}

func TestTheReferenceIsMadeOfTheSchema(t *testing.T) {
	t.Parallel()
	reference, err := agentfile.Reference()
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(referenceFile)
	if err != nil {
		t.Fatal(err)
	}
	head, _, ok := strings.Cut(string(page), marker)
	if !ok {
		t.Fatalf("%s has no line %q", referenceFile, marker)
	}
	publish(t, referenceFile, head+marker+"\n"+strings.TrimSuffix(reference, "\n"))
}

// publish compares a file with what it has to hold, or writes it.
func publish(t *testing.T, file, want string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, []byte(want), 0o644); err != nil { //nolint:gosec // a page for everybody
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(file)
	if diff := cmp.Diff(want, string(got)); err != nil || diff != "" {
		t.Errorf("%s is out of date, run go test ./policy/agentfile -update: %v (-want +got):\n%s", file, err, diff)
	}
}

// TestTheSchemaAgreesWithTheReader asks both about the same files.
func TestTheSchemaAgreesWithTheReader(t *testing.T) {
	t.Parallel()
	raw, err := agentfile.Schema()
	if err != nil {
		t.Fatal(err)
	}
	var s jsonschema.Schema
	if err := json.Unmarshal(raw, &s); err != nil {
		t.Fatal(err)
	}
	schema, err := s.Resolve(nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{
		full,
		"{}",
		"unknown: 1",
		"limits: {unknown: 1}",
		"max_parallel: many",
		"on_busy: wait",
		"name: Bad Name",
		"tools: [{name: x, permission: perhaps}]",
		"tools: [{name: x, route: later}]",
		"approvals: {ttl: soon}",
		"memory: {scope: everybody}",
		"cache: {mode: always}",
		"context: {agents_md: some}",
		"compaction: {items: 3}",
		"tools: [{name: x, effects: some}]",
		"tools: [{name: x, timeout: soon}]",
		"tools: [{name: x, max_output: 1.5}]",
		"hooks: [{command: x, points: [nowhere]}]",
		"hooks: [{command: x}]",
		"mcp: {x: {url: 'http://h', token: abc}}",
		"permissions: {paths: {outside: allow}}",
		"permissions: {commands: {code: perhaps}}",
		"permissions: {disks: {}}",
		"permissions: {kinds: {deny: [mail]}}",
		"permissions: {}",
		"permissions: {paths: {allow: []}}",
		"model: 7",
		"model: ''",
		"model: ",
		"limits: {rounds: 0}",
		"limits: {rounds: 1}",
		"limits: {wall_clock: 30}",
		"limits: {wall_clock: ''}",
		"max_parallel: 0",
		"max_parallel: -1",
		"max_parallel: -2",
		"gate: {command: x, max_retries: 0}",
		"output: {schema: {}, repairs: -1}",
		"output: {}",
		"output: {schema: {}, schema_file: x}",
		"fallback: [a]",
		"system: a\nsystem_file: prompt.md",
		"tools: []",
		"mcp: {x: {timeout: 3s}}",
		"mcp: {x: {command: [a], url: 'http://h'}}",
		"mcp: {x: {command: [a], token: 'env:B'}}",
		"mcp: {x: {url: 'http://h', env: {A: b}}}",
		"guardrails: {}",
		"guardrails: {input: [{max_length: 3, deny: [x]}]}",
		"guardrails: {input: [{warn: true}]}",
		"compaction: {steps: [{keep_items: 2}]}",
		"compaction: {items: 3, share: 0.5, steps: [{keep_items: 2}]}",
		"compaction: {window: 3, share: 1.5, steps: [{keep_items: 2}]}",
		"compaction: {items: 3, steps: [{keep_items: 2, keep_turns: 1}]}",
		"compaction: {items: 3, steps: []}",
		"hooks: [{command: x, points: []}]",
	} {
		_, readErr := agentfile.Parse("a.yaml", []byte(text), files())
		var value any
		if err := yaml.Unmarshal([]byte(text), &value); err != nil {
			t.Fatal(err)
		}
		plain, err := json.Marshal(value)
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(plain, &value); err != nil {
			t.Fatal(err)
		}
		if schemaErr := schema.Validate(value); (readErr == nil) != (schemaErr == nil) {
			t.Errorf("%.40q: the reader says %v, the schema %v", text, readErr, schemaErr)
		}
	}
}
