// Package cli is what the binaries have in common: how they fail, how they end,
// where they log, and how they reach a deployment.
//
// The one idea: whoever runs a program that cannot go on gets one line on standard
// error, saying what, why and what to do, and an exit code to branch on. [Main]
// sees to it for every command of a program: commands return errors and never
// print them. What is wrong with the command line itself is found out before a
// command's own code begins, and exits with [CodeUsage] and the hint where help
// is.
//
// Who owns what: a program owns its root command and registers the flags that it
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
