// Package examples holds programs to read and copy from, one per folder. All run without a
// network and without keys:
//
//	go run ./examples/chat                a conversation at the terminal, in one process
//	go run ./examples/approvals           a person decides what a tool may do
//	go run ./examples/background-tool     a tool that takes longer than the conversation waits
//	go run ./examples/compaction          a transcript that stays small, a history that stays whole
//	go run ./examples/hooks-and-budgets   vetoes and limits, and how they end a turn
//	go run ./examples/verify-task         a task that is done when its verifier passes
//	go run ./examples/coder               an agent that fixes a Go repository, with approvals and a verifier
//	go run ./examples/sub-agents          an agent that is a tool of another one, and asks through it
//	go run ./examples/agent-file          an agent in a file, with permissions, a hook, a verifier and a reviewer
//	go run ./examples/custom-tool-worker  a tool of your own, in an agent and on a worker of a deployment
//	go run ./examples/executable-tool     a program as a tool, by a manifest
//	go run ./examples/replay-in-a-test    a recorded session as a test
//	go run ./examples/slack               approvals with the buttons of a Slack message, by a webhook and the gateway
//	go run ./examples/mcp                 the tools of an MCP server, one of them denied
//
// The folder evals has no program, but a suite for "turnlog eval": see docs/evals.md. The folders http-tool and nats-service
// have tools in Python, TypeScript and shell: see docs/services.md.
//
// An example that fails exits with 1. A test builds and runs all of them, from the root of the
// repository or in testdata/NAME if that exists, with testdata/NAME.in as input if it exists, and
// compares the output with testdata/NAME.txt.
package examples
