package events

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/turnlog/turnlog/content"
)

// ErrBadRef is returned by ParseEntryRef for a text that does not name an entry. Its text shows the syntax.
var ErrBadRef = errors.New("names no entry: write SESSION@SEQ, such as plan-7@12")

// EntryRef names an entry of a session. RunStarted.From names the entry after which another session continues.
type EntryRef struct {
	Session content.SessionID
	Seq     uint64
	Hash    Hash // hash of the entry; zero: not known, as in journals of earlier releases
}

// ParseEntryRef parses a reference in the form that String returns. It returns ErrBadRef for any other text.
func ParseEntryRef(text string) (r EntryRef, err error) {
	name, hash, hashed := strings.Cut(text, "#")
	session, seq, _ := strings.Cut(name, "@")
	r.Session, err = content.ParseSessionID(session)
	if err == nil {
		r.Seq, err = strconv.ParseUint(seq, 10, 64)
	}
	if err == nil && hashed {
		err = r.Hash.UnmarshalText([]byte(hash))
	}
	if err != nil || r.Seq == 0 {
		return EntryRef{}, fmt.Errorf("%q %w", text, ErrBadRef)
	}
	return r, nil
}

// String returns the entry, with its hash if that is known: plan-7@12#5f2c….
func (r EntryRef) String() string {
	if r.Hash.IsZero() {
		return r.Place()
	}
	return r.Place() + "#" + r.Hash.String()
}

// Place returns the entry without its hash: plan-7@12.
func (r EntryRef) Place() string { return string(r.Session) + "@" + strconv.FormatUint(r.Seq, 10) }
