// Package evidence falsifies journals in every known way, and expects the kind of fault, the entry and the exit
// code. It holds the table of docs/evidence.md.
package evidence
