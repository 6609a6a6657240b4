// Package demo is the model that answers when no other is configured. It has no
// network, no keys and no language model, and says so in the first line of every
// answer; but what it tells about a directory is real, because it looks.
//
// The one idea: a question in English is matched against a few rules, and each
// rule is a plan of tool calls. From the results it plans the next calls or
// writes the answer, and nothing in an answer comes from anywhere but those
// results. What it does next is a function of the request alone.
//
// It uses the tools fs_list_directory, fs_find, fs_count, fs_search and
// fs_read_file, as far as the request offers them. The intents are the constants
// in intent.go, the plan of each is in a file of its own.
package demo
