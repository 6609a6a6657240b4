// Package examples holds programs to read and to copy from, one folder each. All
// run without a network and without keys:
//
//	go run ./examples/chat                a conversation at the terminal, in one process
//	go run ./examples/approvals           a person decides what a tool may do
//	go run ./examples/background-tool     a tool that takes longer than the conversation waits
//	go run ./examples/compaction          a transcript that stays small, a history that stays whole
//	go run ./examples/hooks-and-budgets   vetoes and limits, and how they end a turn
//	go run ./examples/verify-task         a task that is done when its gate says so
//	go run ./examples/coder               an agent that mends a Go repository, behind approvals and a gate
//	go run ./examples/sub-agents          an agent that is a tool of another, and asks through it
//	go run ./examples/agent-file          an agent that is written down, with permissions, a hook, a gate and a reviewer
//	go run ./examples/custom-tool-worker  a tool of your own, in an agent and on a worker of a deployment
//	go run ./examples/executable-tool     a program that is a tool, by a manifest
//	go run ./examples/replay-in-a-test    a recorded session as a test
//	go run ./examples/mcp                 the tools of an MCP server, of which one is denied
//
// The one idea: a program that is shown to people is run by a test. The test here
// builds all of them and compares what each prints with testdata/NAME.txt, given
// testdata/NAME.in to read, if there is one.
package examples
