package agentfile_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/turnlog/turnlog/policy/agentfile"
)

func TestMissingToolsAreReported(t *testing.T) {
	t.Parallel()
	text := `tools: [{name: "fs_*"}, {name: deploy}, {name: shell_exec, permission: deny}, {name: mcp_docs_read}]
mcp: {docs: {command: [x]}, wiki: {command: [y]}}
agents: [tester, helper]
`
	d, err := agentfile.Parse("lead.yaml", []byte(text), nil)
	if err != nil {
		t.Fatal(err)
	}
	got := d.Missing([]string{"fs_read_file", "mcp_docs_read", "agent_helper"})
	want := []string{
		"tools[1]: no tool on offer is called deploy", "mcp.wiki: no tool of this server is on offer", "agents[0]: no tool on offer delegates to tester",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("Missing (-want +got):\n%s", diff)
	}
}
