package headlog

import (
	"errors"
	"fmt"
	"sync"

	"golang.org/x/mod/sumdb/tlog"
)

// ErrInconsistent is returned if tiles or leaves do not belong to the root of the tree: the stored log was
// changed, or is damaged.
var ErrInconsistent = errors.New("the log does not match its root")

// Reader reads a tree up to a size and makes proofs. It checks everything that it reads against the root.
// It is safe for concurrent use if the function that returns full tiles is.
type Reader struct {
	at   tlog.Tree
	edge *Tree
	full func(path string) ([]byte, error)

	upper sync.Map // data of the tiles above the lowest level, by path; all proofs need the same few
}

// NewReader returns a reader of the tree with the root at. edge has that size or a later one, and full returns
// the full tile with a path.
func NewReader(at tlog.Tree, edge *Tree, full func(path string) ([]byte, error)) (*Reader, error) {
	if at.N > edge.Size {
		return nil, fmt.Errorf("%w: the log has %d leaves, and the root is for %d", ErrInconsistent, edge.Size, at.N)
	}
	return &Reader{at: at, edge: edge, full: full}, nil
}

// Prove returns the proof that the tree has a leaf at an index.
func (r *Reader) Prove(index int64) (tlog.RecordProof, error) {
	p, err := tlog.ProveRecord(r.at.N, index, r.hashes())
	if err != nil {
		return nil, fmt.Errorf("prove leaf %d of %d: %w", index, r.at.N, inconsistent(err))
	}
	return p, nil
}

// ProveConsistency returns the proof that the tree continues the tree of an earlier size. The proof is empty for
// size 0, which every tree continues.
func (r *Reader) ProveConsistency(size int64) (tlog.TreeProof, error) {
	if size == 0 {
		return nil, nil
	}
	p, err := tlog.ProveTree(r.at.N, size, r.hashes())
	if err != nil {
		return nil, fmt.Errorf("prove that the log of %d leaves extends that of %d: %w", r.at.N, size, inconsistent(err))
	}
	return p, nil
}

// Leaf returns the leaf at an index.
func (r *Reader) Leaf(index int64) ([]byte, error) {
	if index < 0 || index >= r.at.N {
		return nil, fmt.Errorf("%w: leaf %d of %d", ErrInconsistent, index, r.at.N)
	}
	leaves, err := r.bundle(index / width)
	if err != nil {
		return nil, err
	}
	return leaves[index%width], nil
}

// Leaves calls yield with each leaf from an index on, after it has compared the leaf's hash with the tree.
func (r *Reader) Leaves(from int64, yield func(index int64, leaf []byte) error) error {
	for n := from / width; n*width < r.at.N; n++ {
		leaves, err := r.bundle(n)
		if err != nil {
			return err
		}
		for i, leaf := range leaves {
			if index := n*width + int64(i); index >= from {
				if err := yield(index, leaf); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// bundle returns the leaves of a bundle, as far as they are in the tree.
func (r *Reader) bundle(n int64) ([][]byte, error) {
	leaves, size := r.edge.Leaves, min(r.at.N-n*width, width)
	if n < r.edge.Size/width {
		data, err := r.full(path(tlog.Tile{H: height, L: -1, N: n, W: width}))
		if err != nil {
			return nil, err
		}
		if leaves, err = unbundle(data); err != nil {
			return nil, fmt.Errorf("%w: %w", ErrInconsistent, err)
		}
	}
	if int64(len(leaves)) < size {
		return nil, fmt.Errorf("%w: leaf %d is missing", ErrInconsistent, n*width+int64(len(leaves)))
	}
	indexes := make([]int64, size)
	for i := range indexes {
		indexes[i] = tlog.StoredHashIndex(0, n*width+int64(i))
	}
	hashes, err := r.hashes().ReadHashes(indexes)
	if err != nil {
		return nil, fmt.Errorf("leaves from %d on: %w", n*width, inconsistent(err))
	}
	for i, h := range hashes {
		if tlog.RecordHash(leaves[i]) != h {
			return nil, fmt.Errorf("%w: leaf %d was changed", ErrInconsistent, n*width+int64(i))
		}
	}
	return leaves[:size], nil
}

// hashes returns verified hashes of the tree.
func (r *Reader) hashes() tlog.HashReader { return tlog.TileHashReader(r.at, tiles{r}) }

// storeError is an error of the function that returns full tiles. It says nothing about the tree.
type storeError struct{ error }

// Unwrap returns the error of the function.
func (e storeError) Unwrap() error { return e.error }

// inconsistent translates an error of package tlog, which has no sentinels.
func inconsistent(err error) error {
	if from, ok := errors.AsType[storeError](err); ok {
		return from.error
	}
	return fmt.Errorf("%w: %w", ErrInconsistent, err)
}

// tiles implements tlog.TileReader for a Reader.
type tiles struct{ r *Reader }

func (tiles) Height() int                     { return height }
func (tiles) SaveTiles([]tlog.Tile, [][]byte) {}

func (t tiles) ReadTiles(list []tlog.Tile) ([][]byte, error) {
	out := make([][]byte, len(list))
	for i, tile := range list {
		data, err := t.read(tile)
		if err != nil {
			return nil, err
		}
		if len(data) < tile.W*tlog.HashSize {
			return nil, fmt.Errorf("%s has %d bytes", tile.Path(), len(data))
		}
		out[i] = data[:tile.W*tlog.HashSize]
	}
	return out, nil
}

// read returns a tile, possibly wider than requested: a tile that is partial in the reader's tree may be full by now.
func (t tiles) read(tile tlog.Tile) ([]byte, error) {
	edge := t.r.edge
	if tile.N < edge.Size>>(height*(tile.L+1)) {
		tile.W = width
		if data, ok := t.r.upper.Load(path(tile)); ok {
			return data.([]byte), nil //nolint:forcetypeassert // only stored below
		}
		data, err := t.r.full(path(tile))
		if err != nil {
			return nil, storeError{err}
		}
		if tile.L > 0 {
			t.r.upper.Store(path(tile), data)
		}
		return data, nil
	}
	if tile.L >= len(edge.Edge) {
		return nil, errEdge
	}
	return edge.Edge[tile.L], nil
}
