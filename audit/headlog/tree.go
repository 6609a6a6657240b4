package headlog

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"golang.org/x/mod/sumdb/tlog"
)

const (
	height = 8           // height of tiles, as tlog-tiles requires
	width  = 1 << height // width of a full tile

	// MaxLeaf is the size limit of a leaf. It keeps a bundle of them within one message of a NATS server.
	MaxLeaf = 1 << 10
)

// ErrLeafTooLarge is returned for a leaf of more than MaxLeaf bytes.
var ErrLeafTooLarge = errors.New("leaf is too large")

// Tile is a full tile: 256 hashes, or the bundle of the 256 leaves below them. It never changes.
type Tile struct {
	Path string `json:"path"` // as in tlog-tiles, for example tile/0/000 or tile/entries/000
	Data []byte `json:"data"`
}

// Tree is the right edge of a log's tree: everything that is not in full tiles. It suffices to append leaves. The
// zero Tree is an empty log. Its owner stores the tiles that Append fills.
type Tree struct {
	Size   int64    `json:"size"`
	Leaves [][]byte `json:"leaves"` // leaves of the last bundle, fewer than 256
	Edge   [][]byte `json:"edge"`   // the last tile of each level, partial, its hashes one after the other
}

// Room returns how many leaves fit into the last bundle.
func (t *Tree) Room() int { return width - len(t.Leaves) }

// Append adds a leaf and returns the tiles that it fills: none, or from the lowest level on.
func (t *Tree) Append(leaf []byte) ([]Tile, error) {
	if len(leaf) > MaxLeaf {
		return nil, fmt.Errorf("%w: %d bytes, at most %d", ErrLeafTooLarge, len(leaf), MaxLeaf)
	}
	t.Leaves, t.Size = append(t.Leaves, leaf), t.Size+1
	var full []Tile
	if len(t.Leaves) == width {
		full = append(full, Tile{path(tlog.Tile{H: height, L: -1, N: t.Size/width - 1, W: width}), bundle(t.Leaves)})
		t.Leaves = nil
	}
	hash := tlog.RecordHash(leaf)
	for level, n := 0, t.Size; ; level++ { // n hashes are on the level
		t.push(level, hash)
		if n%width != 0 {
			return full, nil
		}
		n /= width
		data := t.Edge[level]
		t.Edge[level] = nil
		full = append(full, Tile{path(tlog.Tile{H: height, L: level, N: n - 1, W: width}), data})
		hash = rootOf(data)
	}
}

// push adds a hash to the last tile of a level.
func (t *Tree) push(level int, hash tlog.Hash) {
	if level == len(t.Edge) {
		t.Edge = append(t.Edge, nil)
	}
	t.Edge[level] = append(t.Edge[level], hash[:]...)
}

// rootOf returns the hash of a full tile, or recursively of a half.
func rootOf(hashes []byte) tlog.Hash {
	if len(hashes) == tlog.HashSize {
		return tlog.Hash(hashes)
	}
	half := len(hashes) / 2
	return tlog.NodeHash(rootOf(hashes[:half]), rootOf(hashes[half:]))
}

// Root returns the root of the tree.
func (t *Tree) Root() (tlog.Tree, error) {
	hash, err := tlog.TreeHash(t.Size, tlog.HashReaderFunc(func(indexes []int64) ([]tlog.Hash, error) {
		out := make([]tlog.Hash, len(indexes))
		for i, index := range indexes { // all are in the edge
			tile := tlog.TileForIndex(height, index)
			if tile.L >= len(t.Edge) {
				return nil, errEdge
			}
			var err error
			if out[i], err = tlog.HashFromTile(tile, t.Edge[tile.L], index); err != nil {
				return nil, fmt.Errorf("%w: %w", errEdge, err)
			}
		}
		return out, nil
	}))
	if err != nil {
		return tlog.Tree{}, fmt.Errorf("root of size %d: %w", t.Size, err)
	}
	return tlog.Tree{N: t.Size, Hash: hash}, nil
}

var errEdge = errors.New("the edge of the tree does not match its size")

// path returns the path of a tile in tlog-tiles. The path of package tlog also contains the height.
func path(t tlog.Tile) string {
	rest := strings.TrimPrefix(t.Path(), "tile/"+strconv.Itoa(height)+"/")
	if t.L < 0 {
		rest = "entries" + strings.TrimPrefix(rest, "data")
	}
	return "tile/" + rest
}

// bundle encodes leaves as a bundle of entries.
func bundle(leaves [][]byte) []byte {
	var out []byte
	for _, leaf := range leaves {
		out = append(binary.BigEndian.AppendUint16(out, uint16(len(leaf))), leaf...) //nolint:gosec // Append limits it
	}
	return out
}

// unbundle reverses bundle.
func unbundle(data []byte) (leaves [][]byte, err error) {
	for len(data) > 0 {
		if len(data) < 2 || len(data)-2 < int(binary.BigEndian.Uint16(data)) {
			return nil, fmt.Errorf("bundle of entries: leaf %d is truncated", len(leaves))
		}
		n := 2 + int(binary.BigEndian.Uint16(data))
		leaves, data = append(leaves, data[2:n:n]), data[n:]
	}
	return leaves, nil
}
