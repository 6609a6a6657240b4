package headlog

import (
	"bytes"
	"fmt"
	"slices"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/turnlog/turnlog/audit/keys"
)

// File is the contents of a file of proofs: heads of one session, the newest first, and the versions of the directory of
// keys that say whose keys signed it, and when they were revoked. With a single head it is a tlog-proof. More proofs may
// follow, each in the form of a separate file. The proof of a version is followed by the directory.
type File struct {
	Heads  []Proof
	Listed []ListedProof
}

// ListedProof shows that a log has a version of the directory of keys. Its extra data is the leaf.
type ListedProof struct {
	Listing

	Signed     []byte // the directory, a note; Open verifies it
	Index      int64
	Hashes     tlog.RecordProof
	Checkpoint []byte
}

// Verify checks the signatures of the checkpoint, and that its tree has the version.
func (p ListedProof) Verify(by *Policy) (Witnessed, error) {
	return included(by, p.Checkpoint, p.Hashes, p.Index, p.Record(), fmt.Sprintf("version %d of the directory of keys", p.Version))
}

// Open returns the directory, which the root with a public key must have signed. The error is keys.ErrBadDirectory, or
// ErrNotIncluded if the log has another one.
func (p ListedProof) Open(root string) (*keys.Directory, error) {
	d, err := keys.Open(p.Signed, root)
	if err == nil && ListingOf(d, root, p.Before) != p.Listing {
		err = fmt.Errorf("%w: version %d of the directory of keys has the hash %s in the log, which is a different one", ErrNotIncluded, p.Version, p.Hash)
	}
	return d, err
}

// Text returns the file.
func (f File) Text() []byte {
	var out [][]byte
	for _, p := range f.Heads {
		out = append(out, p.Text())
	}
	for _, p := range f.Listed {
		out = append(out, textOf(p.Index, p.Hashes, p.Checkpoint, p.Listing.Text()), p.Signed)
	}
	return bytes.Join(out, nil)
}

// begins returns the prefixes of the parts of a file.
func begins() [][]byte { return [][]byte{[]byte("c2sp.org/tlog-proof@v1\n"), []byte(keys.Begins)} }

// parts cuts a file into proofs and directories.
func parts(text []byte) (out [][]byte) {
	start := 0
	for at := 0; at < len(text); {
		next := bytes.IndexByte(text[at:], '\n') + 1
		if next == 0 {
			next = len(text) - at
		}
		if at += next; slices.ContainsFunc(begins(), func(b []byte) bool { return bytes.HasPrefix(text[at:], b) }) {
			out, start = append(out, text[start:at]), at
		}
	}
	return append(out, text[start:])
}

// ParseFile reverses Text, and accepts nothing else. It verifies nothing. With an error it returns the heads before it.
func ParseFile(text []byte) (f File, err error) {
	for _, part := range parts(text) {
		if err := f.add(part); err != nil {
			return f, err
		}
	}
	for _, p := range f.Listed {
		if len(p.Signed) == 0 {
			return f, fmt.Errorf("%w: version %d of the directory of keys is missing", ErrBadProof, p.Version)
		}
	}
	if !bytes.Equal(f.Text(), text) {
		return f, fmt.Errorf("%w: a head follows a version of the directory of keys", ErrBadProof)
	}
	return f, nil
}

// add adds a part.
func (f *File) add(part []byte) error {
	if last := len(f.Listed) - 1; last >= 0 && f.Listed[last].Signed == nil {
		f.Listed[last].Signed = part
		return nil
	}
	index, hashes, checkpoint, extra, err := parse(part)
	if err != nil {
		return err
	}
	leaf, err := ParseLeaf(extra)
	switch {
	case err == nil && len(f.Heads) > 0 && leaf.Session != f.Heads[0].Leaf.Session:
		return fmt.Errorf("%w: it has leaves of two sessions, %s and %s", ErrBadProof, f.Heads[0].Leaf.Session, leaf.Session)
	case err == nil:
		f.Heads = append(f.Heads, Proof{leaf, index, hashes, checkpoint})
		return nil
	case len(f.Heads) == 0:
		return fmt.Errorf("%w: %w", ErrBadProof, err)
	}
	l, err := ParseListing(extra)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrBadProof, err)
	}
	f.Listed = append(f.Listed, ListedProof{l, nil, index, hashes, checkpoint})
	return nil
}
