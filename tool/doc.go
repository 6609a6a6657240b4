// Package tool defines tools: a name, a JSON schema, declared effects and a
// function. The same [Tool] runs in process and on a remote worker.
//
// A tool's failure is part of the conversation. [Invoke] checks the input against the
// schema, runs the tool with its deadline, recovers panics and turns every outcome into
// a result that the model can read. Unless a tool ends the process, it cannot bring
// down its host or leave a call without a result. A tool that ignores its deadline is
// abandoned, which leaks a goroutine.
//
// A [Source] offers tools. A [Registry] is the basic one; [Sample] merges many into
// the [Catalog] of one model call. [Under] overrides what tools declare, and
// [Wrap] puts [Middleware] around a tool. [Func] makes a tool from a Go function.
// [Permissions] decide what a call may do before it runs. Test a tool with package
// tooltest.
package tool
