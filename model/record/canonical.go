package record

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"

	"github.com/gowebpki/jcs"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/model"
)

type request struct {
	key       string
	canonical json.RawMessage
}

// form is the part of a request that identifies it.
type form struct {
	Transcript []content.Item  `json:"transcript"`
	Tools      []toolForm      `json:"tools,omitempty"`
	Schema     json.RawMessage `json:"schema,omitempty"`
}

type toolForm struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	InputSchema json.RawMessage `json:"input_schema,omitempty"`
}

func (m *Model) canonical(r model.Request) (request, error) {
	f := form{Transcript: plain(r.Transcript), Schema: r.Schema}
	if m.tape.header.WithoutTools {
		byDigest(f.Transcript)
	} else {
		for _, s := range r.Tools {
			f.Tools = append(f.Tools, toolForm{Name: s.Name, Description: s.Description, InputSchema: s.InputSchema})
		}
	}
	raw, err := json.Marshal(f)
	if err != nil {
		return request{}, fmt.Errorf("request: %w", err)
	}
	raw, err = jcs.Transform(conceal(raw, m.secrets))
	if err != nil {
		return request{}, fmt.Errorf("request: %w", err)
	}
	sum := sha256.Sum256(raw)
	return request{key: "sha256:" + hex.EncodeToString(sum[:]), canonical: raw}, nil
}

// plain returns a transcript without the values that differ between sessions. Calls are numbered in
// order.
func plain(items []content.Item) []content.Item {
	calls := make(map[content.CallID]content.CallID)
	number := func(id content.CallID) content.CallID {
		if _, ok := calls[id]; !ok {
			calls[id] = content.CallID(fmt.Sprintf("call-%d", len(calls)+1))
		}
		return calls[id]
	}
	out := content.DetachItems(items)
	for i, it := range out {
		out[i] = content.NewItem(it.Kind, plainParts(it.Parts, number)...)
	}
	return out
}

func plainParts(parts []content.Part, number func(content.CallID) content.CallID) []content.Part {
	for i := range parts {
		p := &parts[i]
		p.Metadata = nil
		if c := p.Call; c != nil {
			c.ID, c.Place, c.ProviderID = number(c.ID), "", ""
		}
		if r := p.Result; r != nil {
			r.CallID, r.Metadata, r.Code = number(r.CallID), nil, ""
			r.Output = plainParts(r.Output, number)
		}
	}
	return parts
}

// secret is text to remove, escaped as in JSON.
type secret []byte

// MinSecret is the minimum length of a secret in bytes. Shorter ones may be parts of words.
const MinSecret = 8

func secrets(texts []string) []secret {
	var all []secret
	for _, text := range texts {
		quoted, err := json.Marshal(text)
		if err == nil && len(text) >= MinSecret {
			all = append(all, secret(quoted[1:len(quoted)-1]))
		}
	}
	return all
}

// conceal removes secrets from JSON.
func conceal(raw []byte, all []secret) []byte {
	for _, s := range all {
		raw = bytes.ReplaceAll(raw, s, []byte("[secret]"))
	}
	return raw
}
