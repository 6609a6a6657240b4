// Package docs runs the commands of README.md and of the pages in docs, as a reader would: in
// their order, from a copy of the repository's root, with the built binaries on the PATH and a
// home of its own for each page.
//
// A command is a line of an indented block or of one marked sh. Where a block has lines that
// begin with "$ ", these are its commands, and the lines below each are its output: … stands for
// any text, and alone on a line for any lines. A program that runs until it is stopped runs in the
// background until its page ends or a server starts. What looks like the usage of a command is
// compared with its help. "sleep" waits until the workers of the page offer tools.
//
// What a reader's machine has besides is in pages_test.go, as is each command that does not
// run here, with the reason.
package docs
