// Package permission holds policies over what tool calls may do: rules by tool
// name, and policies for paths, commands, servers and kinds of requests. Each is a
// [tool.Permissions], and so is what [All] makes of several.
//
// The one idea: a policy sees one request at a time and says allow, deny, ask, or
// nothing. Several are put together by one law: the first denial wins, any question
// beats any permission, every question is a gate of its own, and where nobody has an
// opinion a stated default applies. So a policy can only ever narrow what another
// one allows.
//
// A gate is named by its kind and its scope ([content.GateKey]). An approval answers
// that question and no other: leave to run git opens no other program, and leave to
// begin in a directory opens no program at all. An approval that is given for always
// answers the same question, kind and scope, about the same tool for the rest of the
// session; [ScopeOf] says what a question is about when its policy does not.
//
// [Judge] asks a tool what a call will do and a policy what it thinks of that. A node
// does so before anything of a round runs, a worker once more just before a call
// does: only there are the files that a path leads to. What the worker finds out it
// can deny, or bring back as a gate; the call then comes again with what was
// approved.
//
// Policies keep nothing between requests and are safe for concurrent use. They look
// at requests, so they know of a call what its tool says it will do. What they cannot
// see they do not stop: a program that is allowed to run does what it likes. Their
// codes are stable; their texts are for the model.
//
// A policy is tested as it is used: make a [tool.Request] and look at the verdict.
package permission
