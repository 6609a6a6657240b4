package permission

import (
	"fmt"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/tool"
)

// Codes of denials. They are recorded with the call's result.
const (
	CodeRule       = "rule_denied"            // a rule names the tool
	CodeNoOpinion  = "not_permitted"          // no policy has an opinion, and the default is to deny
	CodeUnreadable = "unreadable_request"     // the request does not say what it is about
	CodeProtected  = "path_protected"         // nobody gets at the path
	CodeReadOnly   = "path_read_only"         // the path may only be read
	CodePath       = "path_not_allowed"       // the path lies outside of what is allowed
	CodeCommand    = "command_not_allowed"    // the program
	CodeScript     = "script_not_allowed"     // code handed to an interpreter
	CodeEnv        = "env_not_allowed"        // an environment variable
	CodeDir        = "cwd_not_allowed"        // where the command would begin
	CodeServer     = "server_not_trusted"     // the MCP server
	CodeAuthScope  = "auth_scope_not_allowed" // what the server would be authorized for
	CodeKind       = "kind_not_allowed"       // the kind of the request
	CodePolicy     = "policy_unreadable"      // what a session's agent says cannot be read where its call runs
)

// Kinds of gates beside the kinds of requests, which name theirs.
const (
	KindCall      = "tool.call"      // the call as such, whatever it does
	KindScript    = "shell.script"   // code handed to an interpreter
	KindDir       = "shell.cwd"      // where a command begins
	KindEnv       = "shell.env"      // what it finds in its environment
	KindServer    = "mcp.server"     // the server that is asked
	KindAuthScope = "mcp.auth_scope" // what it is authorized for
)

// Kinds of requests that the policies here look at.
const (
	kindCommand = "shell.command"
	kindsPath   = "filesystem."
	kindsServer = "mcp."
)

func allow() tool.Verdict { return tool.Verdict{Ruling: tool.Allow} }

func deny(code, format string, args ...any) tool.Verdict {
	return tool.Verdict{Ruling: tool.Deny, Code: code, Message: fmt.Sprintf(format, args...)}
}

func ask(kind, scope string, reason content.ApprovalReason, summary string) tool.Verdict {
	return tool.Verdict{Ruling: tool.Ask, RequestKind: kind, Scope: scope, Reason: reason, Summary: summary}
}

// refuse makes the answer to what a policy does not allow by itself: a question,
// unless the policy says that such things are denied.
func refuse(r tool.Ruling, question tool.Verdict, code, format string, args ...any) tool.Verdict {
	if r == tool.Deny {
		return deny(code, format, args...)
	}
	return question
}
