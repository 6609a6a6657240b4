package record

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/model"
)

// version is the version of the file format.
const version = 1

// tape is the content of a cassette.
type tape struct {
	header header
	marks  []mark
	lines  [][]byte // encoded, when recording
	played []exchange
}

// mark identifies the request of a line.
type mark struct {
	key     string
	attempt int
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

func newHeader(m model.Model) header {
	return header{Version: version, Model: m.Name(), Capabilities: capabilities(m.Capabilities())}
}

// exchange is one request and its reply or failure.
type exchange struct {
	Key     string          `json:"key"`
	Attempt int             `json:"attempt"`
	Reply   *reply          `json:"reply,omitempty"`
	Failure *failure        `json:"failure,omitempty"`
	Request json.RawMessage `json:"request"`
}

type reply struct {
	Items        []content.Item       `json:"items,omitempty"`
	Usage        content.Usage        `json:"usage"`
	FinishReason content.FinishReason `json:"finish_reason,omitempty"`
	Model        string               `json:"model,omitempty"`
	ResponseID   string               `json:"response_id,omitempty"`
}

func newReply(r model.Reply) *reply {
	return &reply{Items: r.Items, Usage: r.Usage, FinishReason: r.FinishReason, Model: r.Model, ResponseID: r.ResponseID}
}

func (r *reply) reply() model.Reply {
	return model.Reply{
		Items: content.DetachItems(r.Items), Usage: r.Usage, FinishReason: r.FinishReason, Model: r.Model, ResponseID: r.ResponseID,
	}
}

type failure struct {
	Class      content.ErrorClass `json:"class"`
	Code       string             `json:"code,omitempty"`
	Message    string             `json:"message"`
	RetryAfter time.Duration      `json:"retry_after_ns,omitempty"`
	Usage      content.Usage      `json:"usage"`
}

func newFailure(e *model.Error) *failure {
	return &failure{Class: e.Class, Code: e.Code, Message: e.Message, RetryAfter: e.RetryAfter, Usage: e.Usage}
}

func (f *failure) err() error {
	return &model.Error{Class: f.Class, Code: f.Code, Message: f.Message, RetryAfter: f.RetryAfter, Usage: f.Usage}
}

// line returns the encoded exchange.
func (x exchange) line(secrets []secret) ([]byte, error) {
	raw, err := json.Marshal(x)
	if err != nil {
		return nil, fmt.Errorf("an exchange: %w", err)
	}
	return conceal(raw, secrets), nil
}

// add adds an exchange, replacing an earlier one for the same request.
func (t *tape) add(key string, attempt int, line []byte) {
	m := mark{key, attempt}
	if i := slices.Index(t.marks, m); i >= 0 {
		t.lines[i] = line
		return
	}
	t.marks, t.lines = append(t.marks, m), append(t.lines, line)
}

func (t *tape) bytes() ([]byte, error) {
	head, err := json.Marshal(t.header)
	if err != nil {
		return nil, fmt.Errorf("the header: %w", err)
	}
	lines := append([][]byte{head}, t.lines...)
	return append(bytes.Join(lines, []byte("\n")), '\n'), nil
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
	t.played = append(t.played, x)
	return nil
}

// find returns the exchange of an attempt, otherwise of the latest earlier attempt,
// otherwise of the first one.
func (t *tape) find(key string, attempt int) (found exchange, ok bool) {
	for _, x := range t.played {
		if x.Key != key {
			continue
		}
		if !ok || x.Attempt <= attempt && x.Attempt >= found.Attempt || found.Attempt > attempt && x.Attempt < found.Attempt {
			found, ok = x, true
		}
	}
	return found, ok
}
