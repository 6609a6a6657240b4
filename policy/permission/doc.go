// Package permission holds policies for tool calls: rules by tool name, and policies for
// paths, commands, servers and kinds of requests. Each is a [tool.Permissions], and so is
// the combination that [All] returns.
//
// A policy sees one request at a time and answers allow, deny, ask, or nothing. Policies
// combine by one law: the first denial wins, any question beats any permission, each
// question is asked separately, and a default may apply if no policy has an opinion. So
// adding a policy can only narrow what the others allow.
//
// A question is named by its kind and its scope ([content.QuestionKey]). An approval answers
// that question and no other: permission to run git status covers no git push, and permission to
// start in a directory covers no command at all. A permanent approval answers the same
// question, kind and scope, about the same tool for the rest of the session.
//
// [Judge] asks a tool what a call will do, and a policy whether it may. A node does so
// before any call of a round runs, and a worker again just before each call: only the
// worker has the files that a path leads to. The worker may deny the call or ask a new
// question; the call is then dispatched again with the approval.
//
// Policies keep no state and are safe for concurrent use. They judge requests, so they
// know what a tool says its call will do, and nothing else: a program that is allowed to
// run can do anything. Codes are stable; texts are for the model.
//
// To test a policy, pass it a [tool.Request] and check the verdict.
package permission
