// Package docs runs the commands of README.md and of the pages in docs, as a reader would: in
// their order, from a copy of the repository's root, with the built binaries on the PATH and a
// separate home directory for each page.
//
// A command is a line of an indented block or of a block marked sh. If a block has lines that
// begin with "$ ", these are its commands, and the lines below each are its output: … matches any
// text, and alone on a line any number of lines. A program that runs until it is stopped runs in
// the background until its page ends or a server starts. A line that looks like a command's usage
// is compared with its help. "sleep" waits until the workers of the page offer tools.
//
// What else a page needs is in pages_test.go, and so is each command that does not run
// here, with the reason.
package docs
