package console

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
)

// history has earlier input, in a file with a JSON string on each line. Only its user can read it.
type history struct {
	file  string // "": it is not kept
	all   []string
	at    int    // index of the shown input; len(all): the draft
	draft string // the text that the user was typing
}

// kept is how many inputs are kept.
const kept = 1000

func openHistory(file string) (history, error) {
	h := history{file: file}
	if file == "" {
		return h, nil
	}
	data, err := os.ReadFile(file) //nolint:gosec // the user's own
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return h, fmt.Errorf("history of the chat: %w", err)
	}
	for line := range bytes.Lines(data) {
		var text string
		if json.Unmarshal(line, &text) == nil { // else it was cut off
			h.all = append(h.all, text)
		}
	}
	if len(h.all) > 2*kept {
		h.all = slices.Clone(h.all[len(h.all)-kept:])
		var out bytes.Buffer
		for _, text := range h.all {
			_ = json.NewEncoder(&out).Encode(text) // a buffer takes all
		}
		if err := os.WriteFile(file, out.Bytes(), 0o600); err != nil {
			return h, fmt.Errorf("history of the chat: %w", err)
		}
	}
	h.rewind()
	return h, nil
}

// add keeps an input, unless it is too long to edit. If the file cannot be written, the history lasts only as long as the
// process.
func (h *history) add(text string) {
	if text == "" || len(text) > longPaste || len(h.all) > 0 && h.all[len(h.all)-1] == text {
		h.rewind()
		return
	}
	h.all = append(h.all, text)
	h.rewind()
	if h.file == "" {
		return
	}
	out, err := os.OpenFile(h.file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return
	}
	_ = json.NewEncoder(out).Encode(text)
	_ = out.Close()
}

// rewind goes back to the draft.
func (h *history) rewind() { h.at, h.draft = len(h.all), "" }

// earlier returns the input before the shown one. text is the current text, which it may keep as the draft.
func (h *history) earlier(text string) (string, bool) {
	if h.at == 0 {
		return "", false
	}
	if h.at == len(h.all) {
		h.draft = text
	}
	h.at--
	return h.all[h.at], true
}

// later returns the input after the shown one, or the draft.
func (h *history) later() (string, bool) {
	switch {
	case h.at >= len(h.all):
		return "", false
	case h.at == len(h.all)-1:
		h.at++
		return h.draft, true
	}
	h.at++
	return h.all[h.at], true
}
