// Package tool defines tools: a name, a JSON schema, declared effects and a
// function. The same [Tool] runs in process and on a remote worker.
//
// The one idea: a tool's failure is part of the conversation. [Invoke] checks the
// input against the schema, runs the tool with its deadline, recovers panics and
// turns every outcome into a result that the model can read. Nothing a tool does,
// short of ending the process, can take its host down or leave a call without a
// result. A tool that ignores its deadline is abandoned, which costs a goroutine.
//
// A [Source] offers tools. A [Registry] is the basic one; [Sample] merges many into
// the [Catalog] of one model call. [Under] overrides what tools declare, and
// [Wrap] puts [Middleware] around a tool. [Func] makes a tool from a Go function.
// [Permissions] decide before a call runs what it may do. Test a tool with package
// tooltest.
package tool
