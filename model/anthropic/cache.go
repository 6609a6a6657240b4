package anthropic

import (
	"fmt"
	"slices"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/internal/provider"
)

// maxBreakpoints is the API's limit.
const maxBreakpoints = 4

// cache marks where cached prefixes end. If the cache is required, a breakpoint
// that cannot be set is an error. Otherwise it is left out, and so are the first
// ones if there are too many.
func (c Config) cache(r *content.CacheRequest, t *transcript, tools []object) error {
	if r == nil || r.Mode == "" && len(r.Breakpoints) == 0 {
		if c.Cache == "" {
			return nil
		}
		r = &content.CacheRequest{Mode: "best_effort", Retention: c.Cache}
	}
	if !r.Valid() {
		return provider.Invalid("cache", "the cache request has an unknown mode, retention or breakpoint")
	}
	if r.Mode == "disabled" {
		return nil
	}
	required := r.Mode == "required"
	all := t.spots(tools)
	var wanted []int // indexes into all
	if len(r.Breakpoints) == 0 {
		wanted = t.usual(all)
	}
	for _, b := range r.Breakpoints {
		i := find(all, b)
		if i < 0 && required {
			return provider.Invalid("cache", "no cache breakpoint can be set at %s of item %d, part %d", b.Kind, b.Item, b.Part)
		}
		if i >= 0 {
			wanted = append(wanted, i)
		}
	}
	slices.Sort(wanted)
	wanted = slices.Compact(wanted)
	extra := len(wanted) - maxBreakpoints
	switch {
	case required && extra > 0:
		return provider.Invalid("cache", "%d cache breakpoints, at most %d", len(wanted), maxBreakpoints)
	case required && len(wanted) == 0:
		return provider.Invalid("cache", "there is nothing to cache")
	}
	mark := object{"type": "ephemeral"}
	switch r.Retention {
	case "short":
		mark["ttl"] = "5m"
	case "extended":
		mark["ttl"] = "1h"
	}
	for _, i := range wanted[max(extra, 0):] {
		all[i].block["cache_control"] = mark
	}
	return nil
}

// spot is a block that can hold a breakpoint.
type spot struct {
	block      object
	section    int // the tools, the system prompt, or a message
	item, part int
}

// Sections of a prompt. The first message is section firstMessage, and so on.
const (
	toolsSection = iota
	systemSection
	firstMessage
)

// spots returns all spots, in the order of the prompt. Thinking and verbatim blocks cannot hold a
// breakpoint, and of the tools only the last one can.
func (t *transcript) spots(tools []object) []spot {
	var all []spot
	if n := len(tools); n > 0 {
		all = append(all, spot{block: tools[n-1], section: toolsSection})
	}
	add := func(section int, blocks []block) {
		for _, b := range blocks {
			if o := b.object(); o != nil && !oneOf(fmt.Sprint(o["type"]), "thinking", "redacted_thinking") {
				all = append(all, spot{o, section, b.item, b.part})
			}
		}
	}
	add(systemSection, t.system)
	for i, m := range t.messages {
		add(firstMessage+i, m.blocks)
	}
	return all
}

// usual returns the default breakpoints: the end of what stays the same during a
// session, and the last two user messages, so that the end of the last round is
// found even after the next one has added many blocks.
func (t *transcript) usual(all []spot) []int {
	var wanted []int
	users := 0
	for i, s := range slices.Backward(all) {
		if i+1 < len(all) && all[i+1].section == s.section {
			continue // not the end of its section
		}
		if n := s.section - firstMessage; n >= 0 {
			if t.messages[n].role != "user" || users == 2 {
				continue
			}
			users++
		}
		wanted = append(wanted, i)
	}
	return wanted
}

// find returns the index of the spot that a breakpoint names, or -1.
func find(all []spot, b content.Breakpoint) int {
	for i, s := range slices.Backward(all) {
		switch {
		case (b.Kind == "tools_end") != (s.section == toolsSection):
		case b.Kind == "tools_end", s.item == b.Item && (b.Kind == "item_end" || s.part == b.Part):
			return i
		}
	}
	return -1
}
