// Package permission holds policies for tool calls: rules by tool name, and policies for
// paths, commands, servers and kinds of requests. Each is a [tool.Permissions], and so is
// the combination that [All] returns.
//
// A policy sees one request at a time and answers allow, deny, ask, or nothing. Policies
// combine in one way: the first denial wins, any question beats any permission, each
// question is asked separately, and a default may apply if no policy has an opinion. So
// adding a policy can only restrict what the others allow.
//
// A question is named by its kind and its scope ([content.QuestionKey]). An approval answers
// only that question: permission to run git status does not cover git push, and permission
// to start in a directory covers no command. A permanent approval answers the same question,
// kind and scope, about the same tool for the rest of the session.
//
// [Judge] asks a tool what a call will do, and a policy whether it may. A node does so
// before any call of a round runs, and a worker again just before each call: only the
// worker has the files that a path leads to. The worker may deny the call or ask a new
// question; the call is then dispatched again with the approval.
//
// Policies keep no state and are safe for concurrent use. They judge requests, so they know
// only what a tool says its call will do: a program that is allowed to run can do anything.
// Codes are stable; texts are for the model.
//
// To test a policy, pass it a [tool.Request] and check the verdict.
package permission
