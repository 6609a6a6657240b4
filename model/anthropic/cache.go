package anthropic

import (
	"slices"

	sdk "github.com/anthropics/anthropic-sdk-go"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/internal/provider"
)

// maxBreakpoints is the API's limit.
const maxBreakpoints = 4

// cache marks where cached prefixes end. If the cache is required, a breakpoint
// that cannot be set is an error. Otherwise it is left out, and so are the first
// ones if there are too many.
func (c Config) cache(r *content.CacheRequest, t *transcript, tools []sdk.BetaToolUnionParam) error {
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
	places, err := t.places(r, tools, required)
	if err != nil {
		return err
	}
	if n := len(places) - maxBreakpoints; n > 0 {
		if required {
			return provider.Invalid("cache", "%d cache breakpoints, at most %d", len(places), maxBreakpoints)
		}
		places = places[n:]
	}
	if required && len(places) == 0 {
		return provider.Invalid("cache", "there is nothing to cache")
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

// place is the field of a block that holds a breakpoint.
type place = *sdk.BetaCacheControlEphemeralParam

// places returns the places of the breakpoints, each once, in the order of the
// prompt: tools, system, messages.
func (t *transcript) places(r *content.CacheRequest, tools []sdk.BetaToolUnionParam, required bool) ([]place, error) {
	var wanted []place
	if len(r.Breakpoints) == 0 {
		wanted = t.usual(tools)
	}
	for _, b := range r.Breakpoints {
		p := t.find(b, tools)
		if p == nil && required {
			return nil, provider.Invalid("cache", "no cache breakpoint can be set at %s of item %d, part %d", b.Kind, b.Item, b.Part)
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

// usual returns the default breakpoints: the end of what stays the same during a
// session, and the last two user messages, so that the end of the last round is
// found even after the next one has added many blocks.
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

// find returns the place of a breakpoint, or nil.
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

// lastOf returns the place in the last matching block that has one. Thinking and
// verbatim blocks do not.
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

// cacheable returns all places after the tools, in order.
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
