// Package scripted is a model that replies from a script, as a test double or to run an
// agent without a provider.
//
// The number of assistant items in the transcript selects the reply. A [Model] has no
// state, so a second attempt after a crash, on another machine, gets the same reply.
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
//	repeat: true # repeat the last reply forever; if it has calls, 200 times without new input
//
// A reply may also have reasoning, finish_reason (completed, tool_call, max_tokens,
// blocked, compaction, other) and error: {class, message, code, retry_after,
// attempts}. With attempts, only that many attempts fail, and the next one gets the
// reply. A call may have an id; the default is call_r_n for call n of reply r, both
// counted from 1.
//
// Text and the strings in an input are Go templates. .Prompt is the text of the last
// User item. .Results are the tool results since then, each with .Name, .Text, .JSON
// and .IsError. Integers in .JSON are ints, so {{if gt .JSON.total 3}} works.
//
// Templates may use if, with and range (over .Results only) and the functions and, eq, ge, gt,
// index, le, len, lt, ne, not, or and slice. They have no variables and no nested templates. The
// templates of one reply read and write at most 16 MiB; a text has at most 1 MiB, and 16 KiB with
// templates.
//
// An error in a script names the line and column, and often the field, as in
// replies[0].text. Unknown fields, wrong types, duplicate keys, anchors, aliases and
// tags are errors. [Model.Source] returns the exact bytes of the script, which a
// session contains so that any node can reply.
package scripted
