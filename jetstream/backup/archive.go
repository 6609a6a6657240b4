package backup

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/s2"
	"github.com/nats-io/nats-server/v2/server/archive"

	"github.com/turnlog/turnlog/internal/textfile"
)

// stateEntry is the name of an archive's first entry, which says how many messages follow, and with which
// sequences.
const stateEntry = "state.json"

// state is what the server needs to know of a stream's sequences.
type state struct {
	Messages uint64 `json:"messages"`
	Bytes    uint64 `json:"bytes"`
	First    uint64 `json:"first_seq"`
	Last     uint64 `json:"last_seq"`
}

// message is one message of an archive.
type message struct {
	Subject string
	Seq     uint64
	header  *archive.Header
	body    []byte // headers, then data
}

// head returns the headers of the message, as they are on the wire.
func (m message) head() []byte { return m.body[:m.header.HeaderSize] }

// maxMessage limits a message of an archive. The servers' own limit is 64 MiB.
const maxMessage = 64 << 20

// block is how much of an archive is compressed at a time. With the default of 1 MiB, buffers that most
// streams hardly use took a third of the time to restore a small cell. A reader's buffer grows if a block
// is larger.
const block = 256 << 10

// scan calls begin with the state in an archive's first entry, then each for every message. It returns an
// error for an archive that is cut off or whose sequences do not rise.
func scan(r io.Reader, begin func(state) error, each func(message) error) error {
	in := archive.NewReader(s2.NewReader(r, s2.ReaderAllocBlock(block)))
	hdr, err := in.Next()
	if err != nil {
		return cutOff(err)
	}
	if hdr.Name != stateEntry {
		return fmt.Errorf("the first file is %q, want %s", hdr.Name, stateEntry)
	}
	var first state
	if err := json.NewDecoder(in).Decode(&first); err != nil {
		return fmt.Errorf("%s: %w", stateEntry, err)
	}
	if err := begin(first); err != nil {
		return err
	}
	for last := uint64(0); ; {
		hdr, err := in.Next()
		switch {
		case err != nil:
			return cutOff(err)
		case hdr.Sequence == 0 && hdr.Name == "" && hdr.HeaderSize == 0 && hdr.PayloadSize == 0:
			return nil
		case hdr.Sequence <= last || hdr.Sequence > first.Last:
			return fmt.Errorf("message %d follows %d in a stream that ends with %d", hdr.Sequence, last, first.Last)
		case hdr.HeaderSize < 0 || hdr.PayloadSize < 0 || hdr.HeaderSize > maxMessage || hdr.PayloadSize > maxMessage:
			return fmt.Errorf("message %d has %d bytes", hdr.Sequence, hdr.HeaderSize+hdr.PayloadSize)
		}
		last = hdr.Sequence
		m := message{Subject: hdr.Name, Seq: last, header: hdr, body: make([]byte, hdr.HeaderSize+hdr.PayloadSize)}
		if _, err := io.ReadFull(in, m.body); err != nil {
			return cutOff(err)
		}
		if err := each(m); err != nil {
			return err
		}
	}
}

// cutOff adds to an error that the archive is cut off, if that is why.
func cutOff(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, archive.ErrInvalidArchive) {
		return fmt.Errorf("the archive is truncated: %w", err)
	}
	return err
}

// scanFile is scan for a file, which must have a SHA-256.
func scanFile(path, digest string, begin func(state) error, each func(message) error) error {
	f, err := textfile.Open(path) // a link could lead to a device without end
	if err != nil {
		return fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	defer func() { _ = f.Close() }() // it was only read
	sum := sha256.New()
	err = scan(io.TeeReader(f, sum), begin, each)
	if _, restErr := io.Copy(sum, f); restErr != nil { // the hash covers bytes after the archive's end, too
		err = errors.Join(err, restErr)
	} else if got := hex.EncodeToString(sum.Sum(nil)); got != digest {
		return fmt.Errorf("%w: %s: its SHA-256 is %s, but it was %s when the backup was made", ErrDamaged, path, got, digest)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

// rewrite copies an archive to w, with a later last sequence, and without the messages on subjects for
// which drop returns true.
func rewrite(w io.Writer, path, digest string, last uint64, drop func(subject string) bool) error {
	out := s2.NewWriter(w, s2.WriterBlockSize(block))
	to := archive.NewWriter(out)
	add := func(hdr *archive.Header, body []byte) error {
		err := to.WriteHeader(hdr)
		if err == nil && len(body) > 0 {
			_, err = to.Write(body)
		}
		if err != nil {
			return fmt.Errorf("archive: %w", err)
		}
		return nil
	}
	begin := func(s state) error {
		s.Last = max(s.Last, last)
		if s.Messages == 0 {
			s.First = s.Last + 1
		}
		text, err := s.encode()
		if err != nil {
			return err
		}
		return add(&archive.Header{Name: stateEntry, PayloadSize: int64(len(text))}, text)
	}
	each := func(m message) error {
		if drop(m.Subject) {
			return nil
		}
		return add(m.header, m.body)
	}
	var err error
	if path == "" { // a stream without messages
		err = begin(state{})
	} else {
		err = scanFile(path, digest, begin, each)
	}
	if err == nil {
		err = add(&archive.Header{}, nil) // the end
	}
	return errors.Join(err, out.Close())
}

// encode returns the state in the form that the server reads.
func (s state) encode() ([]byte, error) {
	text, err := json.Marshal(s)
	if err != nil {
		return nil, fmt.Errorf("encode: %w", err)
	}
	return text, nil
}
