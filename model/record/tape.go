package record

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/turnlog/turnlog/content"
)

// version is the version of the file format.
const version = 1

// tape is the content of a cassette.
type tape struct {
	header    header
	exchanges []exchange
}

// header is the first line.
type header struct {
	Version      int          `json:"turnlog_cassette"`
	Model        string       `json:"model"`
	Capabilities capabilities `json:"capabilities"`
}

// capabilities is model.Capabilities in JSON.
type capabilities struct {
	Tools         bool `json:"tools,omitempty"`
	Parallel      bool `json:"parallel,omitempty"`
	Reasoning     bool `json:"reasoning,omitempty"`
	Media         bool `json:"media,omitempty"`
	OutputSchema  bool `json:"output_schema,omitempty"`
	PromptCache   bool `json:"prompt_cache,omitempty"`
	ContextTokens int  `json:"context_tokens,omitempty"`
}

// exchange is one request and its reply or failure.
type exchange struct {
	Key     string           `json:"key"`
	Attempt int              `json:"attempt"`
	Reply   *recordedReply   `json:"reply,omitempty"`
	Failure *recordedFailure `json:"failure,omitempty"`
	Request json.RawMessage  `json:"request"`

	line []byte // encoded, when recording
}

// recordedReply is a model.Reply in JSON.
type recordedReply struct {
	Items        []content.Item       `json:"items,omitempty"`
	Usage        content.Usage        `json:"usage"`
	FinishReason content.FinishReason `json:"finish_reason,omitempty"`
	Model        string               `json:"model,omitempty"`
	ResponseID   string               `json:"response_id,omitempty"`
}

// recordedFailure is a model.Error in JSON.
type recordedFailure struct {
	Class      content.ErrorClass `json:"class"`
	Code       string             `json:"code,omitempty"`
	Message    string             `json:"message"`
	RetryAfter time.Duration      `json:"retry_after_ns,omitempty"`
	Usage      content.Usage      `json:"usage"`
}

// add adds an exchange, replacing an earlier one for the same request.
func (t *tape) add(x exchange) {
	same := func(y exchange) bool { return y.Key == x.Key && y.Attempt == x.Attempt }
	if i := slices.IndexFunc(t.exchanges, same); i >= 0 {
		t.exchanges[i] = x
		return
	}
	t.exchanges = append(t.exchanges, x)
}

func (t *tape) bytes() ([]byte, error) {
	head, err := json.Marshal(t.header)
	if err != nil {
		return nil, fmt.Errorf("the header: %w", err)
	}
	out := slices.Concat(head, []byte{'\n'})
	for _, x := range t.exchanges {
		out = append(append(out, x.line...), '\n')
	}
	return out, nil
}

// parseTape parses a cassette.
func parseTape(data []byte) (tape, error) {
	var t tape
	n := 0
	for line := range bytes.Lines(data) {
		n++
		if len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		if err := t.read(line); err != nil {
			return tape{}, fmt.Errorf("line %d: %w", n, err)
		}
	}
	if t.header.Version == 0 {
		return tape{}, errors.New("empty")
	}
	return t, nil
}

func (t *tape) read(line []byte) error {
	if t.header.Version == 0 {
		if err := json.Unmarshal(line, &t.header); err != nil {
			return fmt.Errorf("not the header of a cassette: %w", err)
		}
		switch {
		case t.header.Version == 0:
			return errors.New("not the header of a cassette")
		case t.header.Version != version:
			return fmt.Errorf("format %d, but this program reads %d", t.header.Version, version)
		}
		return nil
	}
	var x exchange
	d := json.NewDecoder(bytes.NewReader(line))
	d.DisallowUnknownFields()
	if err := d.Decode(&x); err != nil {
		return fmt.Errorf("not an exchange: %w", err)
	}
	if x.Key == "" || (x.Reply == nil) == (x.Failure == nil) {
		return errors.New("not an exchange: want a key and either a reply or a failure")
	}
	t.exchanges = append(t.exchanges, x)
	return nil
}

// find returns the exchange of an attempt, otherwise of the latest earlier attempt,
// otherwise of the first one.
func (t *tape) find(key string, attempt int) (found exchange, ok bool) {
	for _, x := range t.exchanges {
		if x.Key != key {
			continue
		}
		if !ok || x.Attempt <= attempt && x.Attempt >= found.Attempt || found.Attempt > attempt && x.Attempt < found.Attempt {
			found, ok = x, true
		}
	}
	return found, ok
}
