package admin

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/turnlog/turnlog/jetstream/internal/api"
	"github.com/turnlog/turnlog/jetstream/internal/blob"
	"github.com/turnlog/turnlog/jetstream/internal/layout"
)

// marker finds the blobs that something references.
type marker struct {
	cell  *Cell
	blobs map[string]*kept
}

// all marks the blobs that messages of the cell name. It reads journals last, since names move
// from the other streams into entries.
func (m *marker) all(ctx context.Context) error {
	n := m.cell.names
	for _, name := range n.mayName() {
		if err := m.stream(ctx, name); err != nil {
			return err
		}
	}
	return nil
}

// mayName returns the streams whose messages may name blobs: schedules before the commands that
// they send, and journals last.
func (n names) mayName() []string {
	var on []string
	for _, h := range Headers() {
		if h.Name == layout.HeaderBlob {
			on = append(on, h.On...)
		}
	}
	out := n.streams(func(r Row) bool { return slices.Contains(on, r.Name) && r.Name != "JOURNAL" })
	return slices.Concat([]string{n.SchedulesStream()}, out, []string{n.JournalStream()})
}

// keeps returns the streams that hold data of sessions, and the stream of the blobs.
func (n names) keeps() []string {
	on := []string{"BLOBS"}
	for _, row := range Subjects(n.NS) {
		if row.Kept != "" && strings.Contains(row.Subject, "<session>") {
			on = append(on, row.Kept)
		}
	}
	return n.streams(func(r Row) bool { return slices.Contains(on, r.Name) })
}

func (n names) streams(want func(Row) bool) []string {
	var out []string
	for _, r := range Topology(n.NS, Config{}) {
		if want(r) {
			out = append(out, r.Stream)
		}
	}
	return out
}

// stream marks what the messages of a stream name. A stream that only its leader serves is read
// message by message.
func (m *marker) stream(ctx context.Context, stream string) error {
	read := m.cell.api.All
	if !m.direct(stream) {
		read = m.cell.api.AllFromLeader
	}
	for msg, err := range read(ctx, stream, ">", 0) {
		if err == nil {
			err = m.message(ctx, stream, msg)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (m *marker) direct(stream string) bool {
	return slices.Contains(m.cell.names.streams(func(r Row) bool { return r.config.AllowDirect }), stream)
}

// message marks what a message names, and what its payload names if that is a blob. A snapshot
// names nothing that its journal does not.
func (m *marker) message(ctx context.Context, stream string, msg api.Message) error {
	scan := nameScanner{found: m.name}
	_, _ = scan.Write(msg.Data) // never fails
	b := m.blobs[msg.Header.Get(layout.HeaderBlob)]
	if b == nil {
		return nil
	}
	b.live = true
	if b.read || stream == m.cell.names.Snapshots().Stream() {
		return nil
	}
	b.read = true
	err := m.cell.blobs.CopyTo(ctx, b.name, &nameScanner{found: m.name})
	if errors.Is(err, blob.ErrMissing) {
		return nil // readers of the message get the error
	}
	return err
}

func (m *marker) name(name []byte) {
	if b := m.blobs[string(name)]; b != nil {
		b.live = true
	}
}

// digestLen is the length of a blob's name.
const digestLen = 64

func notHex(r rune) bool { return (r < '0' || r > '9') && (r < 'a' || r > 'f') }

// nameScanner finds everything in the bytes written to it that may be the name of a blob.
type nameScanner struct {
	found func(name []byte)
	run   []byte // the last hexadecimal digits, at most as many as a name has
}

// Write implements io.Writer and never fails.
func (s *nameScanner) Write(p []byte) (int, error) {
	for _, c := range p {
		if notHex(rune(c)) {
			s.run = s.run[:0]
			continue
		}
		if len(s.run) == digestLen {
			copy(s.run, s.run[1:])
			s.run = s.run[:digestLen-1]
		}
		if s.run = append(s.run, c); len(s.run) == digestLen {
			s.found(s.run)
		}
	}
	return len(p), nil
}
