package permission

import (
	"fmt"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/tool"
)

// Codes of denials, which are recorded with the call's result.
const (
	CodeRule       = "rule_denied"            // a rule names the tool
	CodeUnreadable = "unreadable_request"     // the request has no readable target
	CodeProtected  = "path_protected"         // the path may not be touched
	CodeReadOnly   = "path_read_only"         // the path may only be read
	CodePath       = "path_not_allowed"       // the path is outside the allowed ones
	CodeCommand    = "command_not_allowed"    // the program
	CodeScript     = "script_not_allowed"     // code handed to an interpreter
	CodeEnv        = "env_not_allowed"        // an environment variable
	CodeDir        = "cwd_not_allowed"        // the directory in which the command would start
	CodeServer     = "server_not_trusted"     // the MCP server
	CodeAuthScope  = "auth_scope_not_allowed" // a scope of the server's credentials
	CodeKind       = "kind_not_allowed"       // the kind of the request
	CodePolicy     = "policy_unreadable"      // the worker cannot read the policy of the session's agent
)

// Kinds of questions, in addition to the kinds of requests.
const (
	KindCall      = events.QuestionCall // the call itself, whatever it does
	KindScript    = "shell.script"      // code handed to an interpreter
	KindDir       = "shell.cwd"         // the directory in which a command starts
	KindEnv       = "shell.env"         // the variables that it gets
	KindServer    = "mcp.server"        // the server that is called
	KindAuthScope = "mcp.auth_scope"    // a scope of its credentials
)

// Kinds of requests that the policies of this package judge.
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

// refuse returns the verdict on a request that a policy does not allow: the question if word is ask or
// empty, otherwise a denial.
func refuse(word string, question tool.Verdict, code, format string, args ...any) tool.Verdict {
	if word == "" || word == wordAsk {
		return question
	}
	return deny(code, format, args...)
}
