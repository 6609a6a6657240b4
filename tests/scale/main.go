// Command scale computes the cost of a number of sessions in a number of cells. It places them one by one, as
// docs/scale.md describes, and multiplies by the cost of a session in one cell, which BenchmarkCell measures:
//
//	go run ./tests/scale --sessions 1000000 --cells 100
package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"text/tabwriter"
)

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil {
		_, _ = fmt.Fprintln(os.Stderr, "scale:", err)
		os.Exit(2)
	}
}

// costs are those of one cell, as docs/scale.md has them.
type costs struct {
	memory  float64 // of the server, in bytes for each session
	disk    float64 // in bytes for each turn
	restart float64 // in seconds for each session
	entries float64 // that the server stores per second
	turn    float64 // entries for each turn
}

func run(args []string, out io.Writer) error {
	fs := flag.NewFlagSet("scale", flag.ContinueOnError)
	var w world
	c := measured()
	fs.IntVar(&w.sessions, "sessions", 1_000_000, "how many sessions there are")
	fs.IntVar(&w.cells, "cells", 100, "how many cells they are in")
	fs.IntVar(&w.tenants, "tenants", 10_000, "how many tenants they belong to; the largest has the most, the second half of that, the third a third")
	turns := fs.Float64("turns", 20, "turns of each session, in all")
	daily := fs.Float64("daily", 20, "turns of each session in a day, half of which are in its busiest two hours")
	fs.Float64Var(&c.memory, "server-bytes", c.memory, "memory of the server for each session, in bytes")
	fs.Float64Var(&c.disk, "disk-bytes", c.disk, "disk for each turn, in bytes")
	fs.Float64Var(&c.restart, "restart", c.restart, "what a session adds to the restart of its server, in seconds")
	fs.Float64Var(&c.entries, "entries", c.entries, "entries that a server stores per second")
	fs.Float64Var(&c.turn, "entries-a-turn", c.turn, "entries of a turn")
	if err := fs.Parse(args); err != nil {
		return err //nolint:wrapcheck // it says which flag
	}
	if w.sessions < 1 || w.cells < 1 || w.tenants < 1 {
		return fmt.Errorf("--sessions %d, --cells %d, --tenants %d: use 1 or more", w.sessions, w.cells, w.tenants)
	}
	peak := *daily / 2 / (2 * 60 * 60) * c.turn // entries per second of a session in its busiest hours
	_, _ = fmt.Fprintf(out, "%d sessions of %d tenants in %d cells, %g turns each\n\n", w.sessions, w.tenants, w.cells, *turns)
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	_, _ = fmt.Fprintln(t, "placed by\tcell\tsessions\tserver\tdisk\trestart\tentries/s\tof a server\t")
	for _, p := range []policy{bySession, byTenant, byTenantInFour} {
		load := w.place(p)
		for _, cell := range []struct {
			name     string
			sessions float64
		}{{"mean", float64(w.sessions) / float64(w.cells)}, {"fullest", float64(load[0])}} {
			rate := cell.sessions * peak
			_, _ = fmt.Fprintf(t, "%s\t%s\t%.0f\t%.2f GB\t%.1f GB\t%.1f s\t%.0f\t%.0f %%\t\n", p, cell.name, cell.sessions,
				cell.sessions*c.memory/1e9, cell.sessions**turns*c.disk/1e9, cell.sessions*c.restart, rate, 100*rate/c.entries)
		}
	}
	_ = t.Flush() // to out, like all before
	_, _ = fmt.Fprintf(out, "\nA cell more: %.2f %% of new sessions are placed there. To even out the old ones, the same share moves.\n", 100*w.moves())
	return nil
}
