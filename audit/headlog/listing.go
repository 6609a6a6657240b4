package headlog

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/turnlog/turnlog/audit/keys"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
)

// listingType is the prefix of a leaf with a version of the directory of keys.
const listingType = "turnlog-directory/v1"

// Listing is a logged version of the directory of keys of a cell. Its index is the size of the log when the version
// took effect: everything below it was logged before. Version numbers may have gaps, since not every version is
// published. So a leaf names the previous version in the log, which shows that there is none in between.
type Listing struct {
	Cell    string      `json:"cell"` // the namespace of the cell
	Root    string      `json:"root"` // the public key that signed it
	Version uint64      `json:"version"`
	Hash    events.Hash `json:"hash"`   // of the text of the directory, without signatures
	Before  uint64      `json:"before"` // the previous version in the log, by the same root; 0: this is the first one
}

// ErrNotAListing is returned by ParseListing for a leaf of another kind, and for a malformed one.
var ErrNotAListing = errors.New("not a version of a directory of keys")

// ListingOf returns the leaf of a directory that a root signed. before is the previous version.
func ListingOf(d *keys.Directory, root string, before uint64) Listing {
	return Listing{Cell: d.Cell, Root: root, Version: d.Version, Hash: d.Digest(), Before: before}
}

// Text returns the leaf as the log holds it: six lines.
func (l Listing) Text() []byte {
	return fmt.Appendf(nil, "%s\n%s\n%s\n%d\n%s\n%d\n", listingType, l.Cell, l.Root, l.Version, l.Hash, l.Before)
}

// Record returns the hash of the leaf in the tree.
func (l Listing) Record() tlog.Hash { return tlog.RecordHash(l.Text()) }

// ParseListing reverses Text.
func ParseListing(text []byte) (Listing, error) {
	lines := strings.Split(string(text), "\n")
	if len(lines) != 7 || lines[0] != listingType {
		return Listing{}, ErrNotAListing
	}
	l := Listing{Cell: lines[1], Root: lines[2]}
	var err error
	if l.Version, err = strconv.ParseUint(lines[3], 10, 64); err == nil {
		err = l.Hash.UnmarshalText([]byte(lines[4]))
	}
	if err == nil {
		l.Before, err = strconv.ParseUint(lines[5], 10, 64)
	}
	if err != nil || l.Version == 0 || !content.IsToken(l.Cell) || !content.IsToken(l.Root) || !bytes.Equal(l.Text(), text) {
		return Listing{}, fmt.Errorf("%w: %q", ErrNotAListing, content.Clip(string(text), 300))
	}
	return l, nil
}

// ListedAt says where the log has a version of the directory of keys.
type ListedAt struct {
	Version uint64 `json:"v"`
	Index   int64  `json:"i"`
}

// Listings returns the versions of the directory of keys in the tree of a reader, in the order of the log.
func (s State) Listings(r *Reader) (all []Listing, at []int64, err error) {
	for _, l := range s.Listed {
		if l.Index >= r.at.N {
			continue
		}
		text, err := r.Leaf(l.Index)
		if err != nil {
			return nil, nil, err
		}
		is, err := ParseListing(text)
		if err == nil && is.Version != l.Version {
			err = fmt.Errorf("the version is %d, want %d", is.Version, l.Version)
		}
		if err != nil {
			return nil, nil, fmt.Errorf("%w: leaf %d: %w", ErrBadState, l.Index, err)
		}
		all, at = append(all, is), append(at, l.Index)
	}
	return all, at, nil
}
