// Package cli holds the code that the binaries share: exit codes, signals, logs, and
// connections to a deployment.
//
// A program that fails prints one line on standard error (what happened, why, and what
// to do) and exits with a code that scripts can test. Commands only return errors;
// [Main] prints them. Errors in the command line are found before a command's own code
// starts, and exit with [CodeUsage] and a hint to the help.
//
// A program owns its root command and registers the flags that it needs ([Log],
// [Deployment], [Choice]); a [Cell] belongs to the command that opened it. The
// environment is read only through a function that the program passes, os.Getenv.
//
// The first SIGINT or SIGTERM ends a command's context with an [Interrupted] as
// its cause; a second one ends the program at once.
//
// To test a program, build its root command with a test environment, set its arguments
// and outputs, and call [Execute].
package cli
