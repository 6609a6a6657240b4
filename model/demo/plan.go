package demo

import (
	"slices"
	"strings"
)

// step is what the model does next: calls, or an answer if there are none.
type step struct {
	calls  []call
	answer string
}

// planFunc goes on with a question. It makes the first calls when the turn has no
// rounds, and sees what they returned later on.
type planFunc func(in intent, t turn) step

// plan finds the next step of a turn.
func plan(t turn) step {
	in := understand(t.prompt)
	if !slices.ContainsFunc(t.tools, func(name string) bool { return strings.HasPrefix(name, "fs_") }) {
		return step{answer: noTools()}
	}
	next, needs := planOf(in)
	for _, tool := range needs {
		if !slices.Contains(t.tools, tool) {
			return step{answer: wrap("I would answer this with the tool "+tool+", but it is not on offer here. "+
				"On offer are: "+strings.Join(t.tools, ", ")+".", 0)}
		}
	}
	return next(in, t)
}

// planOf returns the plan for an intent, and the tools that it cannot do without.
func planOf(in intent) (next planFunc, needs []string) {
	switch in.verb {
	case listing:
		return planListing, []string{toolList}
	case finding:
		return planFinding, []string{toolFind}
	case reading:
		return planReading, []string{toolRead}
	case searching:
		return planSearching, []string{toolSearch}
	case counting:
		return planCounting, []string{toolCount}
	case ranking:
		return planRanking, []string{toolCount}
	case locating:
		return planLocating, []string{toolSearch}
	case overview:
		return planOverview, []string{toolList}
	case unclear, helping:
	}
	return planHelp, nil
}

func noTools() string {
	return wrap("I answer questions about files, and no file tool is on offer here. "+
		"Run me with the tools of fs (--tools fs), or choose a model that can do without.", 0)
}

// failed is the answer when a plan cannot go on: it says plainly what the tools
// said.
func failed(what string, r round) step {
	var b strings.Builder
	b.WriteString("I could not " + what + ":\n\n")
	for _, line := range r.complaints() {
		b.WriteString(wrap(line, 2))
	}
	return step{answer: b.String()}
}
