package record

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/gowebpki/jcs"

	"github.com/turnlog/turnlog/model"
)

// version is the version of the file format.
const version = 1

// tape is the content of a cassette.
type tape struct {
	header    header
	exchanges []exchange
	seen      map[place]bool // used during parsing
}

// place is where an exchange is found.
type place struct {
	key     string
	attempt int
}

// header is the first line.
type header struct {
	Version      int                `json:"turnlog_cassette"`
	Model        string             `json:"model"`
	Capabilities model.Capabilities `json:"capabilities"`
	WithoutTools bool               `json:"without_tools,omitempty"` // requests have no tools, and digests instead of files; see FromJournal
}

// exchange is one request and its reply or failure.
type exchange struct {
	Key     string          `json:"key"`
	Attempt int             `json:"attempt"`
	Reply   *model.Reply    `json:"reply,omitempty"`
	Failure *model.Error    `json:"failure,omitempty"`
	Request json.RawMessage `json:"request"`
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
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	err := enc.Encode(t.header)
	for _, x := range t.exchanges {
		err = errors.Join(err, enc.Encode(x))
	}
	return b.Bytes(), err
}

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
		return tape{}, errors.New("the file is empty: \"turnlog cassette SESSION\" prints a cassette")
	}
	return t, nil
}

func (t *tape) read(line []byte) error {
	if t.header.Version == 0 {
		if err := json.Unmarshal(line, &t.header); err != nil {
			return fmt.Errorf("not the header of a cassette, as \"turnlog cassette SESSION\" prints it: %w", err)
		}
		switch {
		case t.header.Version == 0:
			return errors.New("not the header of a cassette, as \"turnlog cassette SESSION\" prints it")
		case t.header.Version != version:
			return fmt.Errorf("format %d, but this program reads %d", t.header.Version, version)
		}
		return nil
	}
	var x exchange
	_, err := jcs.Transform(line) // checks that it is one value without duplicate keys
	if err == nil {
		d := json.NewDecoder(bytes.NewReader(line))
		d.DisallowUnknownFields()
		err = d.Decode(&x)
	}
	if err != nil {
		return fmt.Errorf("not an exchange: %w", err)
	}
	if x.Key == "" || (x.Reply == nil) == (x.Failure == nil) {
		return errors.New("not an exchange: want a key and either a reply or a failure")
	}
	at := place{x.Key, x.Attempt}
	if t.seen[at] {
		return fmt.Errorf("attempt %d of this request is also on an earlier line: remove one of them", x.Attempt)
	}
	if t.seen == nil {
		t.seen = make(map[place]bool)
	}
	t.seen[at] = true
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
