// Package scripted is a model that answers from a script: the double for tests,
// and a way to run an agent with no provider.
//
// The one idea: which reply comes next is a function of the request alone, the
// number of assistant items in its transcript. A [Model] remembers nothing, so a
// second attempt after a crash, on another machine, gives the same reply.
//
// A script is YAML:
//
//	replies:
//	  - text: I will look.
//	    calls:
//	      - name: fs_read_file
//	        input: {path: README.md}
//	  - text: "It says: {{(index .Results 0).Text}}"
//	    usage: {input: 120, output: 8}
//	    delay: 50ms # before the first delta
//	    chunk: 4    # runes per delta
//	repeat: true # the last reply is given again and again
//
// A reply may also have reasoning, finish_reason (completed, tool_call,
// max_tokens, blocked, compaction, other) and error: {class, message, code,
// retry_after, attempts}. With attempts, only so many attempts fail and the next
// one gets the reply. A call may have an id; otherwise the n-th call of the r-th
// reply is call_r_n, both counted from 1.
//
// Text, and strings inside an input, are Go templates over .Prompt, the text of
// the last User item, and .Results, the results of the tools since then, in
// order, each with .Name, .Text, .JSON and .IsError. In .JSON, whole numbers are
// ints, so {{if gt .JSON.total 3}} works.
//
// A script that does not parse is refused as a whole, with line and column;
// unknown fields, wrong types, duplicate keys, anchors, aliases and tags are
// errors. [Model.Source] returns its exact bytes, which a deployment carries with
// the session so that any node can answer.
package scripted
