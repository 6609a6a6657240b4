// Package cli holds what the binaries have in common: exit codes, signals, logs, and
// connections to a deployment.
//
// The one idea: a program that fails prints one line on standard error (what happened,
// why, and what to do) and exits with a code that scripts can test. Commands only
// return errors; [Main] prints them. Errors in the command line are found before a
// command's own code starts, and exit with [CodeUsage] and a hint to the help.
//
// A program owns its root command and registers the flags that it
// needs ([Log], [Deployment], [Choice]); a [Cell] belongs to the command that
// opened it. The environment is read through a function that the program gives,
// os.Getenv, and nowhere else.
//
// The first SIGINT or SIGTERM ends a command's context with an [Interrupted] as
// its cause; a second one ends the program at once.
//
// To test a program, build its root command with an environment of the test's own,
// set its arguments and outputs, and call [Execute].
package cli
