package main

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/turnlog/turnlog/events"
)

// limitFlag takes limits as requests=N,tokens=N,…
type limitFlag struct {
	events.Limits
}

// limitOf is a limit by its name on the command line.
func limitOf(l *events.Limits, name string) *int64 {
	switch name {
	case "requests":
		return &l.Requests
	case "tokens":
		return &l.TotalTokens
	case "input_tokens":
		return &l.InputTokens
	case "output_tokens":
		return &l.OutputTokens
	case "tool_calls":
		return &l.ToolCalls
	case "rounds":
		return &l.MaxRounds
	}
	return nil
}

func limitNames() []string {
	return []string{"requests", "tokens", "input_tokens", "output_tokens", "tool_calls", "rounds"}
}

func (f *limitFlag) register(cmd *cobra.Command) {
	cmd.Flags().Var(f, "limit", "end a turn beyond `limits`, separated by commas; a session's own are never widened: "+strings.Join(limitNames(), "=N, ")+"=N")
	var keys []string
	for _, name := range limitNames() {
		keys = append(keys, name+"=")
	}
	complete := cobra.FixedCompletions(keys, cobra.ShellCompDirectiveNoFileComp|cobra.ShellCompDirectiveNoSpace)
	_ = cmd.RegisterFlagCompletionFunc("limit", complete) // the flag is there
}

// Set adds limits; it may be given several times.
func (f *limitFlag) Set(text string) error {
	for pair := range strings.SplitSeq(text, ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(pair), "=")
		limit := limitOf(&f.Limits, name)
		if limit == nil {
			return fmt.Errorf("%q is none of %s", name, strings.Join(limitNames(), ", "))
		}
		n, err := strconv.ParseInt(value, 10, 64)
		if err != nil || n < 1 {
			return fmt.Errorf("%s=%s: use a number from 1 on", name, value)
		}
		*limit = n
	}
	return nil
}

// String is empty, as the default is.
func (f *limitFlag) String() string { return "" }

// Type names what the flag takes.
func (f *limitFlag) Type() string { return "limits" }
