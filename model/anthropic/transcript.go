package anthropic

import (
	"slices"
	"strconv"
	"strings"

	"github.com/turnlog/turnlog/content"
)

// transcript is a conversation in the shape of the API: a system prompt and messages
// with alternating roles.
type transcript struct {
	system    []block
	messages  []message
	compacted bool // it contains a compaction by the provider
}

type message struct {
	role   string
	blocks []block
}

// block is a piece of a message and its position in the transcript.
type block struct {
	param      any // an object, or the JSON of a block of the provider, sent back unchanged
	item, part int
}

// object returns nil for a block of the provider.
func (b block) object() object {
	o, _ := b.param.(object)
	return o
}

// write converts items. It leaves out what the API would reject, such as empty text
// and thinking without a signature.
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
	for _, m := range t.messages { // results come before anything new
		slices.SortStableFunc(m.blocks, func(a, b block) int { return rank(a) - rank(b) })
	}
	return t
}

func rank(b block) int {
	if b.object()["type"] == "tool_result" {
		return 0
	}
	return 1
}

func (t *transcript) add(k content.Kind, b block) {
	role := "user"
	switch k {
	case content.System, content.Developer:
		t.system = append(t.system, b)
		return
	case content.Assistant:
		role = "assistant"
	case content.User, content.Tool, content.Context, content.Notification:
	}
	if n := len(t.messages); n == 0 || t.messages[n-1].role != role {
		t.messages = append(t.messages, message{role: role})
	}
	last := &t.messages[len(t.messages)-1]
	if last.role == "assistant" {
		t.compacted = t.compacted || isCompaction(b.param)
	}
	last.blocks = append(last.blocks, b)
}

func (t *transcript) wireMessages() []object {
	messages := []object{}
	if t.beginsCut() {
		messages = append(messages, object{"role": "user", "content": text("[earlier messages are left out]")})
	}
	for _, m := range t.messages {
		messages = append(messages, object{"role": m.role, "content": params(m.blocks)})
	}
	return messages
}

func params(blocks []block) []any {
	var all []any
	for _, b := range blocks {
		all = append(all, b.param)
	}
	return all
}

// beginsCut reports whether the first message is the assistant's, which the API
// accepts only if it starts with a compaction.
func (t *transcript) beginsCut() bool {
	if len(t.messages) == 0 {
		return false
	}
	first := t.messages[0]
	return first.role == "assistant" && !isCompaction(first.blocks[0].param)
}

// wireIDs returns a unique id for each call that the API accepts: the provider's, or
// the session's.
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

// tagged marks text that the user did not write.
func tagged(k content.Kind, text string) string {
	if k != content.Context && k != content.Notification {
		return text
	}
	return "<" + string(k) + ">\n" + strings.TrimRight(text, "\n") + "\n</" + string(k) + ">"
}
