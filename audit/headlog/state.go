package headlog

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"golang.org/x/mod/sumdb/tlog"
)

// State is what the writer of a log stores with each append, as one value, guarded against other writers. So
// there is only one tree, and it never depends on a second write.
type State struct {
	Origin   string          `json:"origin"`
	Root     tlog.Hash       `json:"root"`
	Tree     Tree            `json:"tree"`
	Due      []Tile          `json:"due,omitempty"`      // tiles that this append filled, to store before the next one
	Indexed  int64           `json:"indexed,omitempty"`  // leaves below this index can be found by session
	Listed   []ListedAt      `json:"listed,omitempty"`   // where the versions of the directory of keys are
	Position json.RawMessage `json:"position,omitempty"` // from which the writer continues, if it is restarted
}

// ErrBadState is returned by ParseState for a value that no writer of a log stores.
var ErrBadState = errors.New("invalid state of a log")

// NewState returns the state of an empty log.
func NewState(origin string) State {
	root, _ := tlog.TreeHash(0, nil) // reads nothing
	return State{Origin: origin, Root: root}
}

// Append returns the state with the leaves appended. There may be at most Room of them, so that they fill at most one
// bundle.
func (s State) Append(leaves [][]byte) (State, error) {
	next := s
	next.Due, next.Tree = nil, s.Tree.clone()
	for _, leaf := range leaves {
		full, err := next.Tree.Append(leaf)
		if err != nil {
			return s, err
		}
		next.Due = append(next.Due, full...)
	}
	root, err := next.Tree.Root()
	next.Root = root.Hash
	return next, err
}

// clone returns a copy. It shares only data that Append does not change.
func (t *Tree) clone() Tree {
	out := Tree{Size: t.Size, Leaves: append([][]byte(nil), t.Leaves...)}
	for _, tile := range t.Edge {
		out.Edge = append(out.Edge, bytes.Clone(tile))
	}
	return out
}

// Checkpoint returns the root of the log.
func (s State) Checkpoint() Checkpoint {
	return Checkpoint{Origin: s.Origin, Tree: tlog.Tree{N: s.Tree.Size, Hash: s.Root}}
}

// Reader returns a reader of the tree with an earlier root, or with the latest.
func (s State) Reader(at tlog.Tree, full func(path string) ([]byte, error)) (*Reader, error) {
	return NewReader(at, &s.Tree, func(path string) ([]byte, error) {
		for _, t := range s.Due {
			if t.Path == path {
				return t.Data, nil
			}
		}
		return full(path)
	})
}

// Encode returns the stored form of the state.
func (s State) Encode() ([]byte, error) {
	data, err := json.Marshal(s)
	if err != nil {
		return nil, fmt.Errorf("encode the state of log %s: %w", s.Origin, err)
	}
	return data, nil
}

// ParseState reverses Encode and checks that the root belongs to the tree.
func ParseState(data []byte) (s State, err error) {
	if err := json.Unmarshal(data, &s); err != nil {
		return s, fmt.Errorf("%w: %w", ErrBadState, err)
	}
	if err := s.Tree.check(); err != nil {
		return s, fmt.Errorf("%w: %w", ErrBadState, err)
	}
	root, err := s.Tree.Root()
	if err == nil && root.Hash != s.Root {
		err = fmt.Errorf("the root is %s, not %s", root.Hash, s.Root)
	}
	if err != nil {
		return s, fmt.Errorf("%w: %w", ErrBadState, err)
	}
	return s, nil
}

// check checks that the tree has as many leaves and hashes as its size says.
func (t *Tree) check() error {
	if t.Size < 0 || int64(len(t.Leaves)) != t.Size%width {
		return errEdge
	}
	for level, n := 0, t.Size; n > 0 || level < len(t.Edge); level, n = level+1, n/width {
		if level >= len(t.Edge) && n%width != 0 || level < len(t.Edge) && int64(len(t.Edge[level])) != n%width*tlog.HashSize {
			return errEdge
		}
	}
	for i, leaf := range t.Leaves {
		if hash := tlog.RecordHash(leaf); !bytes.Equal(hash[:], t.Edge[0][i*tlog.HashSize:(i+1)*tlog.HashSize]) {
			return fmt.Errorf("%w: leaf %d of the last bundle was changed", errEdge, i)
		}
	}
	return nil
}
