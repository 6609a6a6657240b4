// Package conceal keeps the secrets of this process from the commands that it runs.
//
// A command of the same user can read what the system shows about its parent: the variables
// with which the process was started and, on Linux, its memory. So these must hold no secrets.
// Secrets overwrites the variables that Linux shows. Where it cannot, it starts the program
// again without them, and passes them through a pipe. On Linux it makes the process
// undumpable: only a process with the capability CAP_SYS_PTRACE may read its memory. Package
// procgroup runs commands without that capability.
//
// The arguments of a process stay visible to everyone, and files to their user. A command of
// root can still do anything to the machine, and so to this process, unless a sandbox
// confines it.
//
// To test a caller, start it as a process with a secret in a variable, and search everything
// that a command of it can read.
package conceal
