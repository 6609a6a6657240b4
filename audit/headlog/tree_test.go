package headlog

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/transparency-dev/merkle/compact"
	merkleproof "github.com/transparency-dev/merkle/proof"
	"github.com/transparency-dev/merkle/rfc6962"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
)

// leafOf returns the head of a different session for each index.
func leafOf(i int) Leaf {
	return Leaf{
		Cell: "turnlog", Session: content.SessionID(fmt.Sprintf("s-%d", i)), Seq: uint64(i + 1), //nolint:gosec // small
		Hash: events.HashOf(fmt.Appendf(nil, "entry %d", i)),
	}
}

// grown is a log and the full tiles that were stored.
type grown struct {
	State

	stored map[string][]byte
	roots  []tlog.Hash // by size
}

func (g *grown) tile(path string) ([]byte, error) {
	if data, ok := g.stored[path]; ok {
		return data, nil
	}
	return nil, errors.New("no tile " + path)
}

func (g *grown) at(size int) tlog.Tree { return tlog.Tree{N: int64(size), Hash: g.roots[size]} }

// grow returns a log of a size, to which leaves were added one by one.
func grow(tb testing.TB, size int) *grown {
	tb.Helper()
	g := &grown{State: NewState("example.com/log"), stored: map[string][]byte{}}
	g.roots = append(g.roots, g.Root)
	for i := range size {
		next, err := g.Append([][]byte{leafOf(i).Text()})
		if err != nil {
			tb.Fatal(err)
		}
		for _, t := range next.Due {
			if g.stored[t.Path] != nil {
				tb.Fatalf("tile %s is stored twice", t.Path)
			}
			g.stored[t.Path] = t.Data
		}
		g.State = next
		g.roots = append(g.roots, next.Root)
	}
	return g
}

// TestTreesAgreeWithOtherImplementations compares roots, tiles and proofs with those of the Go checksum
// database and of transparency-dev.
func TestTreesAgreeWithOtherImplementations(t *testing.T) {
	t.Parallel()
	const size = 1_300
	g := grow(t, size)
	factory := compact.RangeFactory{Hash: rfc6962.DefaultHasher.HashChildren}
	other := factory.NewEmptyRange(0)
	var stored []tlog.Hash // as package tlog numbers them
	reader := tlog.HashReaderFunc(func(indexes []int64) ([]tlog.Hash, error) {
		out := make([]tlog.Hash, len(indexes))
		for i, at := range indexes {
			out[i] = stored[at]
		}
		return out, nil
	})
	for i := range size {
		if err := other.Append(rfc6962.DefaultHasher.HashLeaf(leafOf(i).Text()), nil); err != nil {
			t.Fatal(err)
		}
		hashes, err := tlog.StoredHashes(int64(i), leafOf(i).Text(), reader)
		if err != nil {
			t.Fatal(err)
		}
		stored = append(stored, hashes...)
		if root, err := other.GetRootHash(nil); err != nil || !bytes.Equal(root, g.roots[i+1][:]) {
			t.Fatalf("root of size %d: %x, %v, want %x", i+1, g.roots[i+1], err, root)
		}
		if root, err := tlog.TreeHash(int64(i+1), reader); err != nil || root != g.roots[i+1] {
			t.Fatalf("root of size %d: %s, %v, want %s", i+1, g.roots[i+1], err, root)
		}
	}
	full := 0
	for _, tile := range tlog.NewTiles(height, 0, size) {
		want, err := tlog.ReadTileData(tile, reader)
		if err != nil {
			t.Fatal(err)
		}
		got := g.Tree.Edge[tile.L]
		if tile.W == width {
			got = g.stored[path(tile)]
			full++
		}
		if !bytes.Equal(got, want) {
			t.Errorf("tile %s differs", tile.Path())
		}
	}
	if bundles := size / width; len(g.stored) != full+bundles {
		t.Errorf("%d tiles were stored, want %d of hashes and %d bundles", len(g.stored), full, bundles)
	}
}

func TestProofsVerifyElsewhere(t *testing.T) {
	t.Parallel()
	const size = 700
	g := grow(t, size)
	for _, n := range []int{1, 2, 255, 256, 257, 511, 512, 513, 600, size} {
		at := g.at(n)
		r, err := g.Reader(at, g.tile)
		if err != nil {
			t.Fatal(err)
		}
		for _, i := range []int{0, 1, n / 3, n / 2, n - 2, n - 1} {
			if i < 0 || i >= n {
				continue
			}
			p, err := r.Prove(int64(i))
			if err != nil {
				t.Fatalf("prove %d of %d: %v", i, n, err)
			}
			leaf := leafOf(i).Text()
			if err := tlog.CheckRecord(p, at.N, at.Hash, int64(i), tlog.RecordHash(leaf)); err != nil {
				t.Errorf("leaf %d of %d: %v", i, n, err)
			}
			err = merkleproof.VerifyInclusion(rfc6962.DefaultHasher, uint64(i), uint64(n), rfc6962.DefaultHasher.HashLeaf(leaf), raw(p), at.Hash[:]) //nolint:gosec // small
			if err != nil {
				t.Errorf("leaf %d of %d: %v", i, n, err)
			}
		}
		for _, m := range []int{0, 1, n / 2, n - 1, n} {
			p, err := r.ProveConsistency(int64(m))
			if err != nil {
				t.Fatalf("prove that %d continue %d: %v", n, m, err)
			}
			err = merkleproof.VerifyConsistency(rfc6962.DefaultHasher, uint64(m), uint64(n), raw(p), g.roots[m][:], at.Hash[:]) //nolint:gosec // small
			if err != nil && m > 0 {
				t.Errorf("%d continue %d: %v", n, m, err)
			}
		}
		next := 0
		err = r.Leaves(0, func(i int64, leaf []byte) error {
			if int(i) != next || !bytes.Equal(leaf, leafOf(next).Text()) {
				return fmt.Errorf("leaf %d is %q", i, leaf)
			}
			next++
			return nil
		})
		if err != nil || next != n {
			t.Errorf("%d leaves of %d: %v", next, n, err)
		}
	}
}

// raw returns a proof as transparency-dev has it.
func raw[P ~[]tlog.Hash](p P) (out [][]byte) {
	for _, h := range p {
		out = append(out, h[:])
	}
	return out
}

// TestPathsAreThoseOfTheSpecification has the examples of tlog-tiles.
func TestPathsAreThoseOfTheSpecification(t *testing.T) {
	t.Parallel()
	for want, tile := range map[string]tlog.Tile{
		"tile/0/x001/x234/067":      {H: height, N: 1_234_067, W: width},
		"tile/1/000.p/17":           {H: height, L: 1, W: 17},
		"tile/entries/000":          {H: height, L: -1, W: width},
		"tile/entries/x001/003.p/8": {H: height, L: -1, N: 1_003, W: 8},
	} {
		if got := path(tile); got != want {
			t.Errorf("path of %+v = %s, want %s", tile, got, want)
		}
	}
	// "A tree of size 70,000 will be represented by 273 full level 0 tiles, one partial level 0 tile of width
	// 112, one full level 1 tile, one partial level 1 tile of width 17, and one partial level 2 tile of width 1."
	var tree Tree
	full := map[string]int{}
	for i := range 70_000 {
		tiles, err := tree.Append(leafOf(i).Text())
		if err != nil {
			t.Fatal(err)
		}
		for _, tile := range tiles {
			full[tile.Path[:strings.LastIndexByte(tile.Path, '/')]]++
		}
	}
	if full["tile/0"] != 273 || full["tile/1"] != 1 || full["tile/entries"] != 273 || len(full) != 3 {
		t.Errorf("full tiles: %v", full)
	}
	for level, want := range []int{112, 17, 1} {
		if got := len(tree.Edge[level]) / tlog.HashSize; got != want {
			t.Errorf("level %d ends with a tile of width %d, want %d", level, got, want)
		}
	}
}

func TestAChangedLogIsNotRead(t *testing.T) {
	t.Parallel()
	const size = 600
	read := func(g *grown) error {
		r, err := g.Reader(g.at(size), g.tile)
		if err == nil {
			_, err = r.Prove(3)
		}
		if err == nil {
			err = r.Leaves(0, func(int64, []byte) error { return nil })
		}
		return err
	}
	if err := read(grow(t, size)); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(g *grown){
		"a hash of a full tile":    func(g *grown) { g.stored["tile/0/000"][40]++ },
		"a leaf of a full bundle":  func(g *grown) { g.stored["tile/entries/001"][100]++ },
		"a bundle that is cut off": func(g *grown) { g.stored["tile/entries/001"] = g.stored["tile/entries/001"][:5_000] },
		"a tile that is cut off":   func(g *grown) { g.stored["tile/0/001"] = g.stored["tile/0/001"][:320] },
		"bundles in another order": func(g *grown) {
			g.stored["tile/entries/000"], g.stored["tile/entries/001"] = g.stored["tile/entries/001"], g.stored["tile/entries/000"]
		},
		"a leaf of the last bundle":  func(g *grown) { g.Tree.Leaves[7] = leafOf(1).Text() },
		"a leaf less":                func(g *grown) { g.Tree.Leaves = g.Tree.Leaves[:10] },
		"a hash of the edge":         func(g *grown) { g.Tree.Edge[0][5]++ },
		"a level of the edge":        func(g *grown) { g.Tree.Edge = g.Tree.Edge[:1] },
		"another root":               func(g *grown) { g.roots[size][0]++ },
		"the root of an earlier log": func(g *grown) { g.roots[size] = g.roots[size-1] },
		"a tree that is cut off":     func(g *grown) { g.Tree = grow(t, size-1).Tree },
	} {
		g := grow(t, size)
		change(g)
		if err := read(g); !errors.Is(err, ErrInconsistent) {
			t.Errorf("%s: %v, want ErrInconsistent", name, err)
		}
	}
	g := grow(t, size)
	delete(g.stored, "tile/0/001")
	if err := read(g); err == nil || errors.Is(err, ErrInconsistent) || !strings.Contains(err.Error(), "no tile tile/0/001") {
		t.Errorf("a tile that the store does not return: %v", err)
	}
}

func TestStatesReadBack(t *testing.T) {
	t.Parallel()
	for _, size := range []int{0, 1, 255, 256, 300, 512} {
		s := grow(t, size).State
		data, err := s.Encode()
		if err != nil {
			t.Fatal(err)
		}
		back, err := ParseState(data)
		if err != nil || back.Checkpoint() != s.Checkpoint() || len(back.Due) != len(s.Due) {
			t.Fatalf("size %d: %v, %v", size, back.Checkpoint(), err)
		}
		more, err := back.Append([][]byte{leafOf(size).Text()})
		if want := grow(t, size+1); err != nil || more.Root != want.Root {
			t.Errorf("size %d: the next root is %v, want %v: %v", size, more.Root, want.Root, err)
		}
	}
	good := grow(t, 300).State
	for name, change := range map[string]func(*State){
		"size":   func(s *State) { s.Tree.Size++ },
		"leaf":   func(s *State) { s.Tree.Leaves[3][20]++ },
		"leaves": func(s *State) { s.Tree.Leaves = s.Tree.Leaves[1:] },
		"edge":   func(s *State) { s.Tree.Edge[1][3]++ },
		"levels": func(s *State) { s.Tree.Edge = s.Tree.Edge[:1] },
		"root":   func(s *State) { s.Root[9]++ },
	} {
		bad := good
		bad.Tree = good.Tree.clone()
		bad.Tree.Leaves[3] = slices.Clone(bad.Tree.Leaves[3])
		change(&bad)
		data, err := bad.Encode()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := ParseState(data); !errors.Is(err, ErrBadState) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := ParseState([]byte("{")); !errors.Is(err, ErrBadState) {
		t.Error(err)
	}
	if _, err := good.Append([][]byte{make([]byte, MaxLeaf+1)}); !errors.Is(err, ErrLeafTooLarge) {
		t.Error(err)
	}
}

func TestLeavesReadBack(t *testing.T) {
	t.Parallel()
	want := leafOf(7)
	text := string(want.Text())
	if got, err := ParseLeaf([]byte(text)); err != nil || got != want {
		t.Errorf("%+v, %v", got, err)
	}
	for _, bad := range []string{
		"", text[1:], text[:len(text)-1], text + "\n", "\n" + text, strings.Replace(text, "\n8\n", "\n08\n", 1), strings.Replace(text, "\n8\n", "\n0\n", 1),
		strings.Replace(text, "s-7", "s 7", 1), strings.Replace(text, "turnlog\n", "\n", 1), strings.ToUpper(text), strings.Replace(text, "v1", "v2", 1),
	} {
		if _, err := ParseLeaf([]byte(bad)); !errors.Is(err, ErrNotAHead) {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

func BenchmarkAppend(b *testing.B) {
	var tree Tree
	leaf := leafOf(1).Text()
	for b.Loop() {
		if _, err := tree.Append(leaf); err != nil {
			b.Fatal(err)
		}
	}
}

// million is a log of a million leaves, with its full tiles.
func million(b *testing.B) *grown {
	b.Helper()
	g := &grown{State: NewState("example.com/log"), stored: map[string][]byte{}}
	for i := range 1_000_000 {
		full, err := g.Tree.Append(leafOf(i).Text())
		if err != nil {
			b.Fatal(err)
		}
		for _, t := range full {
			g.stored[t.Path] = t.Data
		}
	}
	root, err := g.Tree.Root()
	if err != nil {
		b.Fatal(err)
	}
	g.Root = root.Hash
	return g
}

// BenchmarkProve proves a leaf of a million, from tiles that are all verified.
func BenchmarkProve(b *testing.B) {
	g := million(b)
	r, err := g.Reader(g.Checkpoint().Tree, g.tile)
	if err != nil {
		b.Fatal(err)
	}
	i := int64(0)
	for b.Loop() {
		if _, err := r.Prove(i % 1_000_000); err != nil {
			b.Fatal(err)
		}
		i += 7_919
	}
}

// BenchmarkCheck checks the proof of a leaf of a million, without the signatures.
func BenchmarkCheck(b *testing.B) {
	g := million(b)
	at := g.Checkpoint().Tree
	r, err := g.Reader(at, g.tile)
	if err != nil {
		b.Fatal(err)
	}
	p, err := r.Prove(123_456)
	if err != nil {
		b.Fatal(err)
	}
	leaf := leafOf(123_456).Record()
	for b.Loop() {
		if err := tlog.CheckRecord(p, at.N, at.Hash, 123_456, leaf); err != nil {
			b.Fatal(err)
		}
	}
}
