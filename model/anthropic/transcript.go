package anthropic

import (
	"slices"
	"strconv"
	"strings"

	sdk "github.com/anthropics/anthropic-sdk-go"

	"github.com/turnlog/turnlog/content"
)

// transcript is a conversation as the API wants it: a system prompt, and messages
// of alternating roles.
type transcript struct {
	system    []block
	messages  []message
	compacted bool // a compaction of the provider is in it
}

type message struct {
	role   sdk.BetaMessageParamRole
	blocks []block
}

// block is a piece of a message, and the part of the transcript that it was.
type block struct {
	param      sdk.BetaContentBlockParamUnion
	item, part int
}

// write brings items into the API's shape. What the API would refuse, empty texts
// and thinking without a signature, is left out.
func write(items []content.Item) *transcript {
	t := &transcript{}
	calls := wireIDs(items)
	for i, it := range items {
		for j, p := range it.Parts {
			for _, b := range blocks(it.Kind, p, calls) {
				t.add(it.Kind, block{param: b, item: i, part: j})
			}
		}
	}
	for _, m := range t.messages { // answers come before anything new
		slices.SortStableFunc(m.blocks, func(a, b block) int { return rank(a) - rank(b) })
	}
	return t
}

func rank(b block) int {
	if b.param.OfToolResult != nil {
		return 0
	}
	return 1
}

func (t *transcript) add(k content.Kind, b block) {
	role := sdk.BetaMessageParamRoleUser
	switch k {
	case content.System, content.Developer:
		t.system = append(t.system, b)
		return
	case content.Assistant:
		role = sdk.BetaMessageParamRoleAssistant
	case content.User, content.Tool, content.Context, content.Notification:
	}
	if n := len(t.messages); n == 0 || t.messages[n-1].role != role {
		t.messages = append(t.messages, message{role: role})
	}
	last := &t.messages[len(t.messages)-1]
	if last.role == sdk.BetaMessageParamRoleAssistant {
		t.compacted = t.compacted || isCompaction(b.param)
	}
	last.blocks = append(last.blocks, b)
}

func (t *transcript) params() ([]sdk.BetaTextBlockParam, []sdk.BetaMessageParam) {
	var system []sdk.BetaTextBlockParam
	for _, b := range t.system {
		system = append(system, *b.param.OfText)
	}
	messages := []sdk.BetaMessageParam{}
	if t.beginsCut() {
		messages = append(messages, sdk.NewBetaUserMessage(sdk.NewBetaTextBlock("[what came before is left out]")))
	}
	for _, m := range t.messages {
		p := sdk.BetaMessageParam{Role: m.role}
		for _, b := range m.blocks {
			p.Content = append(p.Content, b.param)
		}
		messages = append(messages, p)
	}
	return system, messages
}

// beginsCut reports whether the first message is one that the API takes only after
// another: an assistant's, unless it stands for all before it.
func (t *transcript) beginsCut() bool {
	if len(t.messages) == 0 {
		return false
	}
	first := t.messages[0]
	return first.role == sdk.BetaMessageParamRoleAssistant && !isCompaction(first.blocks[0].param)
}

// wireIDs finds an id for each call that the API takes and that no other call of
// the transcript has: the one that it came with, or the session's own.
func wireIDs(items []content.Item) map[content.CallID]string {
	ids, taken := map[content.CallID]string{}, map[string]bool{}
	for _, it := range items {
		for _, c := range it.Calls() {
			id := c.ProviderID
			if !content.IsToken(id) || taken[id] {
				id = string(c.ID)
			}
			if !content.IsToken(id) || taken[id] {
				id = "call_" + strconv.Itoa(len(taken))
			}
			ids[c.ID], taken[id] = id, true
		}
	}
	return ids
}

// tagged marks a text as something that the user did not say.
func tagged(k content.Kind, text string) string {
	if k != content.Context && k != content.Notification {
		return text
	}
	return "<" + string(k) + ">\n" + strings.TrimRight(text, "\n") + "\n</" + string(k) + ">"
}
