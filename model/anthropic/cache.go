package anthropic

import (
	"fmt"
	"slices"

	sdk "github.com/anthropics/anthropic-sdk-go"

	"github.com/turnlog/turnlog/content"
)

// maxBreakpoints is how many the API takes.
const maxBreakpoints = 4

// cache marks where cached prefixes end. A request that must be honoured fails if
// one of its breakpoints cannot be set; otherwise those are left out, and of too
// many the ones that come first.
func (c Config) cache(r *content.CacheRequest, t *transcript, tools []sdk.BetaToolUnionParam) error {
	if r == nil || r.Mode == "" && len(r.Breakpoints) == 0 {
		if c.Cache == "" {
			return nil
		}
		r = &content.CacheRequest{Mode: "best_effort", Retention: c.Cache}
	}
	if !r.Valid() {
		return invalid("cache", "the cache request has words that are not known")
	}
	if r.Mode == "disabled" {
		return nil
	}
	required := r.Mode == "required"
	places, err := t.places(r, tools, required)
	if err != nil {
		return err
	}
	if n := len(places) - maxBreakpoints; n > 0 {
		if required {
			return invalid("cache", fmt.Sprintf("%d cache breakpoints, at most %d", len(places), maxBreakpoints))
		}
		places = places[n:]
	}
	if required && len(places) == 0 {
		return invalid("cache", "there is nothing that can be cached")
	}
	mark := sdk.NewBetaCacheControlEphemeralParam()
	switch r.Retention {
	case "short":
		mark.TTL = sdk.BetaCacheControlEphemeralTTLTTL5m
	case "extended":
		mark.TTL = sdk.BetaCacheControlEphemeralTTLTTL1h
	}
	for _, p := range places {
		*p = mark
	}
	return nil
}

// place is where a breakpoint can be set.
type place = *sdk.BetaCacheControlEphemeralParam

// places finds the places of the breakpoints, each once, in the order of the
// prompt: tools, system, messages.
func (t *transcript) places(r *content.CacheRequest, tools []sdk.BetaToolUnionParam, required bool) ([]place, error) {
	var wanted []place
	if len(r.Breakpoints) == 0 {
		wanted = t.usual(tools)
	}
	for _, b := range r.Breakpoints {
		p := t.find(b, tools)
		if p == nil && required {
			return nil, invalid("cache", fmt.Sprintf("no cache breakpoint can be set at %s of item %d, part %d", b.Kind, b.Item, b.Part))
		}
		wanted = append(wanted, p)
	}
	var all []place
	for _, p := range append([]place{toolsEnd(tools)}, t.cacheable()...) {
		if p != nil && slices.Contains(wanted, p) {
			all = append(all, p)
		}
	}
	return all, nil
}

// usual are the breakpoints of a provider that may choose: what stays the same all
// through a session, and the two last user messages, so that the end of the last
// round is still found when the next one has added many blocks.
func (t *transcript) usual(tools []sdk.BetaToolUnionParam) []place {
	wanted := []place{toolsEnd(tools), lastOf(t.system, every)}
	users := 0
	for _, m := range slices.Backward(t.messages) {
		if m.role != sdk.BetaMessageParamRoleUser {
			continue
		}
		if p := lastOf(m.blocks, every); p != nil {
			wanted = append(wanted, p)
			users++
		}
		if users == 2 {
			break
		}
	}
	return wanted
}

// find returns the place of a breakpoint, nil if there is none.
func (t *transcript) find(b content.Breakpoint, tools []sdk.BetaToolUnionParam) place {
	if b.Kind == "tools_end" {
		return toolsEnd(tools)
	}
	here := func(x block) bool { return x.item == b.Item && (b.Kind == "item_end" || x.part == b.Part) }
	if p := lastOf(t.system, here); p != nil {
		return p
	}
	for _, m := range t.messages {
		if p := lastOf(m.blocks, here); p != nil {
			return p
		}
	}
	return nil
}

func toolsEnd(tools []sdk.BetaToolUnionParam) place {
	if len(tools) == 0 {
		return nil
	}
	return tools[len(tools)-1].GetCacheControl()
}

func every(block) bool { return true }

// lastOf returns the place at the last of the blocks that has one and matches.
// Thinking and blocks that go back verbatim have none.
func lastOf(blocks []block, match func(block) bool) place {
	for _, b := range slices.Backward(blocks) {
		if match(b) {
			if p := b.param.GetCacheControl(); p != nil {
				return p
			}
		}
	}
	return nil
}

// cacheable are all places outside of the tools, in order.
func (t *transcript) cacheable() []place {
	var all []place
	for _, b := range t.system {
		all = append(all, b.param.GetCacheControl())
	}
	for _, m := range t.messages {
		for _, b := range m.blocks {
			all = append(all, b.param.GetCacheControl())
		}
	}
	return all
}
