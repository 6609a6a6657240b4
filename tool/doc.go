// Package tool says what a tool is: a name, a JSON schema, declared effects and
// a function. The same [Tool] runs in process and on a remote worker without a
// change.
//
// The one idea: a tool's failure belongs to the conversation. [Invoke] checks the
// input against the schema, runs the tool with its deadline, isolates panics, and
// turns whatever came of it into a result that the model can read; short of ending
// the process, nothing a tool does can take its host down or leave a call
// unanswered. A tool that ignores its deadline costs a goroutine, which is left
// behind.
//
// A [Source] offers tools; a [Registry] is the plain one, and [Sample] merges many
// into the [Catalog] of one model call. [Prefix], [Rename], [Filter] and [Federate]
// make sources of sources, and [Wrap] puts [Middleware] around a tool's calls.
// [Func] makes a tool of any Go function. [Permissions] decide, before anything runs,
// what a call may do. To test a tool, run it through package tooltest.
package tool
