// Package workspace reads what a folder tells the agents that work in it:
// AGENTS.md files ([AgentsMD]) and specifications ([Specs]).
//
// The one idea: what is found becomes transcript items, recorded with the session
// like everything that a model was shown. So what a file said on the day counts
// for a session that runs, and an auditor sees it.
//
// Files are read through an [os.Root]: symbolic links do not lead out of the
// folder. A file that is not UTF-8 or larger than 256 KiB is an error in AgentsMD,
// where somebody meant it to count, and passed over in Specs. Nothing is cached.
package workspace
