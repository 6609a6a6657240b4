// Package conceal keeps the secrets of this process from the commands that it runs.
//
// The one idea: a command of the same user may read what the system shows of its parent, so
// that must hold nothing. The system shows the variables that a process was started with, for
// as long as it runs; on Linux also its memory. Secrets starts the program again without
// the variables, which it gets through a pipe, and makes it undumpable: only a process with
// the capability CAP_SYS_PTRACE may read its memory. Package procgroup runs commands without
// that capability.
//
// The arguments of a process stay visible to everyone, and files to their user. A command of
// root can still do anything to the machine, and so to this process, unless a sandbox
// confines it.
//
// To test a caller, start it as a process with a secret in a variable, and search what a
// command of it can read.
package conceal
