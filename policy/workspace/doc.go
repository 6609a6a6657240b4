// Package workspace reads a folder's files for the agents that work in it: AGENTS.md files
// ([AgentsMD]) and specifications ([Specs]).
//
// Files become transcript items, which are recorded with the session like everything that a
// model sees. So a running session keeps the content that the files had, and an auditor can
// read it.
//
// Files are read through an [os.Root], so symbolic links cannot leave the folder. A file that
// is not UTF-8 or is larger than 256 KiB is an error in AgentsMD, because it was meant to be
// read, and is skipped in Specs. Nothing is cached.
package workspace
