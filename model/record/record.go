package record

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"github.com/google/renameio/v2/maybe"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/internal/deltas"
	"github.com/turnlog/turnlog/internal/textfile"
	"github.com/turnlog/turnlog/model"
)

// chunk is the number of runes per delta of a replayed reply.
const chunk = 24

// Config configures a [Model].
type Config struct {
	Secrets []string // removed from cassettes; ignored if shorter than MinSecret
	Nearest bool     // a request that was not recorded gets the reply to the most similar one
}

// Model records the replies of another model, or replays them. It is safe for
// concurrent use.
type Model struct {
	name    string
	inner   model.Model // nil: replay
	file    string      // "": parsed
	source  []byte      // bytes of a replayed cassette
	secrets []secret
	nearest bool

	mu   sync.Mutex // guards tape
	tape tape
}

// maxFile is the size limit of a cassette.
const maxFile = 256 << 20

// Open opens a cassette. With a model, it records the model's replies; the first call
// replaces the file. With nil, it replays the file.
func Open(file string, inner model.Model, cfg Config) (*Model, error) {
	if file == "" {
		return nil, errors.New("no cassette: name a file")
	}
	if inner == nil {
		data, err := textfile.ReadFile(file, maxFile)
		if err != nil {
			return nil, fmt.Errorf("cassette: %w", err)
		}
		return Parse(file, data, cfg)
	}
	if info, err := os.Stat(filepath.Dir(file)); err != nil || !info.IsDir() {
		return nil, fmt.Errorf("cassette %s: no directory %s", file, filepath.Dir(file))
	}
	return &Model{
		name: "record:" + filepath.Base(file), inner: inner, file: file, secrets: secrets(cfg.Secrets),
		tape: tape{header: header{Version: version, Model: inner.Name(), Capabilities: inner.Capabilities()}},
	}, nil
}

// Parse replays the cassette in data. The name appears in errors, and its last element
// in the model's name. It need not be a file.
func Parse(name string, data []byte, cfg Config) (*Model, error) {
	t, err := parseTape(data)
	if err != nil {
		return nil, fmt.Errorf("cassette %s: %w", name, err)
	}
	return &Model{name: "replay:" + filepath.Base(name), source: bytes.Clone(data), secrets: secrets(cfg.Secrets), nearest: cfg.Nearest, tape: t}, nil
}

// Name returns record: or replay: and the last element of the cassette's name.
func (m *Model) Name() string { return m.name }

// Source returns the bytes of the replayed cassette, or nil when recording.
func (m *Model) Source() []byte { return bytes.Clone(m.source) }

// Capabilities returns the capabilities of the recorded model.
func (m *Model) Capabilities() model.Capabilities {
	if m.inner != nil {
		return m.inner.Capabilities()
	}
	return m.tape.header.Capabilities
}

// Call replays a reply, or calls the model and records its reply.
func (m *Model) Call(ctx context.Context, r model.Request, emit func(content.Delta)) (model.Reply, error) {
	if ctx.Err() != nil {
		return model.Reply{}, context.Cause(ctx)
	}
	asked, err := m.canonical(r)
	if err != nil {
		return model.Reply{}, &model.Error{Class: content.ClassInvalid, Message: m.name + ": " + err.Error()}
	}
	if m.inner != nil {
		return m.record(ctx, r, asked, emit)
	}
	return m.replay(ctx, r, asked, emit)
}

func (m *Model) replay(ctx context.Context, r model.Request, asked request, emit func(content.Delta)) (model.Reply, error) {
	x, ok := m.tape.find(asked.key, r.Attempt)
	if !ok && m.nearest {
		x, ok = m.tape.closest(asked)
	}
	if !ok {
		return model.Reply{}, &model.Error{Class: content.ClassExhausted, Code: "not_recorded", Message: m.name + ": " + m.tape.explain(asked)}
	}
	if x.Failure != nil {
		failed := *x.Failure
		return model.Reply{}, &failed
	}
	reply := *x.Reply
	reply.Items = content.DetachItems(reply.Items)
	if err := deltas.Stream(ctx, reply.Items, chunk, emit); err != nil {
		return model.Reply{}, err
	}
	return reply, nil
}

func (m *Model) record(ctx context.Context, r model.Request, asked request, emit func(content.Delta)) (model.Reply, error) {
	reply, err := m.inner.Call(ctx, r, emit)
	if ctx.Err() != nil {
		return reply, err // a canceled call is not recorded
	}
	x := exchange{Key: asked.key, Attempt: r.Attempt, Request: asked.canonical}
	switch e, typed := errors.AsType[*model.Error](err); {
	case typed:
		x.Failure = new(*e)
	case err != nil:
		return reply, err
	default:
		x.Reply = new(reply)
		x.Reply.Items = content.DetachItems(reply.Items)
	}
	if failed := m.keep(x); failed != nil {
		return model.Reply{}, &model.Error{Class: content.ClassOther, Code: "record", Message: fmt.Sprintf("cassette %s: %v", m.file, failed), Usage: reply.Usage}
	}
	return reply, err
}

// keep adds an exchange and replaces the file.
func (m *Model) keep(x exchange) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.tape.add(x)
	data, err := m.tape.bytes()
	if err != nil {
		return err
	}
	return maybe.WriteFile(m.file, conceal(data, m.secrets), 0o644) //nolint:wrapcheck // record adds the name
}
