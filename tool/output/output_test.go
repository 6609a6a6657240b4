package output_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/tool"
	"github.com/turnlog/turnlog/tool/output"
	"github.com/turnlog/turnlog/tool/tooltest"
)

// says returns a tool with fixed output.
func says(t *testing.T, out tool.Output, err error) tool.Tool {
	t.Helper()
	x, defErr := tool.Func("says", "Says it.", func(context.Context, struct{}) (tool.Output, error) { return out, err })
	if defErr != nil {
		t.Fatal(defErr)
	}
	return x
}

func reader(t *testing.T, s output.Store) tool.Tool {
	t.Helper()
	x, err := output.NewReader(s)
	if err != nil {
		t.Fatal(err)
	}
	return x
}

func call(t *testing.T, x tool.Tool, in map[string]any) content.ToolResult {
	t.Helper()
	raw, err := json.Marshal(in)
	if err != nil {
		t.Fatal(err)
	}
	return tool.Invoke(t.Context(), x, tool.Call{Session: "s", ID: "c1", Name: x.Spec().Name, Input: raw}).Result
}

func kept(t *testing.T, r content.ToolResult) output.Kept {
	t.Helper()
	var k output.Kept
	raw, ok := r.Metadata.Get(output.MetaKept)
	if !ok {
		t.Fatalf("nothing was kept of %q", r.Text())
	}
	if err := json.Unmarshal(raw, &k); err != nil {
		t.Fatal(err)
	}
	return k
}

// disk is a store in a folder, for outputs that tests must not hold in memory.
type disk string

func (d disk) PutFrom(_ context.Context, src io.ReadSeeker) (id string, size int64, err error) {
	f, err := os.CreateTemp(string(d), "")
	if err != nil {
		return "", 0, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if _, err := src.Seek(0, io.SeekStart); err != nil {
		return "", 0, err
	}
	sum := sha256.New()
	size, err = io.Copy(io.MultiWriter(f, sum), src)
	id = hex.EncodeToString(sum.Sum(nil))
	return id, size, errors.Join(err, os.Rename(f.Name(), filepath.Join(string(d), id)))
}

func (d disk) CopyTo(_ context.Context, id string, w io.Writer) (bool, error) {
	f, err := os.Open(filepath.Join(string(d), filepath.Base(id)))
	if err != nil {
		return false, nil
	}
	defer func() { _ = f.Close() }()
	_, err = io.Copy(w, f)
	return true, err
}

func stores(t *testing.T) map[string]output.Store {
	t.Helper()
	return map[string]output.Store{"memory": output.NewMemory(0), "disk": disk(t.TempDir())}
}

func TestLongOutputIsReadBackInPieces(t *testing.T) {
	t.Parallel()
	const long = "αβγ line\n"
	whole := strings.Repeat(long, 1000)
	for name, store := range stores(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			x := tool.Wrap(says(t, tool.Text(whole), nil), output.Keep(store, output.Options{Limit: 200}))
			r := call(t, x, nil)
			k := kept(t, r)
			if k.Bytes != len(whole) || k.Tool != "output_read" || len(r.Text()) > 500 || !strings.HasPrefix(r.Text(), "αβγ line\n") || !strings.Contains(r.Text(), k.ID) {
				t.Errorf("kept %+v, the model sees %q", k, r.Text())
			}
			var got strings.Builder
			read, next := reader(t, store), 0
			for range 10_000 {
				text := call(t, read, map[string]any{"id": k.ID, "offset": next, "limit": 777}).Text()
				head, piece, _ := strings.Cut(text, "\n")
				got.WriteString(piece)
				m := regexp.MustCompile(`; continue with offset (\d+)$`).FindStringSubmatch(head)
				if m == nil {
					break
				}
				if _, err := fmt.Sscan(m[1], &next); err != nil {
					t.Fatal(err)
				}
			}
			if got.String() != whole {
				t.Errorf("read back %d bytes of %d", got.Len(), len(whole))
			}
		})
	}
}

func TestEachPieceNamesTheNextOffset(t *testing.T) {
	t.Parallel()
	store := output.NewMemory(0)
	x := tool.Wrap(says(t, tool.Text(strings.Repeat("0123456789", 20)+"é"), nil), output.Keep(store, output.Options{Limit: 50}))
	id := kept(t, call(t, x, nil)).ID
	read := reader(t, store)
	for _, row := range []struct {
		in   map[string]any
		want string
	}{
		{map[string]any{"limit": 50}, "output: bytes 0 to 50 of 202; continue with offset 50\n" + strings.Repeat("0123456789", 5)},
		{map[string]any{"offset": 195}, "output: bytes 195 to 202 of 202; the end\n56789é"},
		{map[string]any{"offset": 198, "limit": 3}, "output: bytes 198 to 202 of 202; the end\n89é"},
		{map[string]any{"offset": 200, "limit": 1}, "output: bytes 200 to 202 of 202; the end\né"},
		{map[string]any{"offset": 201}, "output: bytes 202 to 202 of 202; the end\n"},
		{map[string]any{"limit": 65536}, "output: bytes 0 to 202 of 202; the end\n" + strings.Repeat("0123456789", 20) + "é"},
	} {
		row.in["id"] = id
		if r := call(t, read, row.in); r.Text() != row.want {
			t.Errorf("%v: %q, want %q", row.in, r.Text(), row.want)
		}
	}
	for want, in := range map[string]map[string]any{
		"limit":                                {"id": id, "limit": 65537},
		"limit: ":                              {"id": id, "limit": 0},
		"offset: is 202, but the output has 2": {"id": id, "offset": 202},
		"offset":                               {"id": id, "offset": -1},
		"search: error parsing regexp":         {"id": id, "search": "["},
	} {
		if r := call(t, read, in); r.Code != tool.CodeInvalidArguments || !strings.Contains(r.Text(), want) {
			t.Errorf("%v: %q %q", in, r.Code, r.Text())
		}
	}
	tooltest.Run(t, read, tooltest.Case{Name: "gone", Input: `{"id":"x"}`, Status: content.StatusError, Code: output.CodeGone})
}

// TestFullPieceIsNotStoredAgain reads as much as possible of a text that grows when it
// is encoded as JSON.
func TestFullPieceIsNotStoredAgain(t *testing.T) {
	t.Parallel()
	store := output.NewMemory(0)
	keep := output.Keep(store, output.Options{Limit: 100})
	whole := strings.Repeat("\"\\\n\x01", 20_000)
	id := kept(t, call(t, tool.Wrap(says(t, tool.Text(whole), nil), keep), nil)).ID
	r := call(t, tool.Wrap(reader(t, store), keep), map[string]any{"id": id, "limit": 65536})
	if _, again := r.Metadata.Get(output.MetaKept); again || !strings.HasSuffix(r.Text(), whole[:65536]) {
		t.Errorf("%d bytes, %v", len(r.Text()), r.Metadata)
	}
}

func TestSearchInAnOutput(t *testing.T) {
	t.Parallel()
	store := output.NewMemory(0)
	var whole strings.Builder
	for i := range 100 {
		fmt.Fprintf(&whole, "line %02d\n", i)
	}
	whole.WriteString(strings.Repeat("x", 1000) + "needle" + strings.Repeat("y", 1000))
	id := kept(t, call(t, tool.Wrap(says(t, tool.Text(whole.String()), nil), output.Keep(store, output.Options{Limit: 50})), nil)).ID
	read := reader(t, store)
	for search, want := range map[string]string{
		"line .7$": "56: line 07\n136: line 17\n",
		"needle":   "1700: …" + strings.Repeat("x", 100) + "needle" + strings.Repeat("y", 194) + "…\n[matches: 1; each with its offset]\n",
		"absent":   "no line from byte 0 on matches\n",
		"^line":    "0: line 00\n8: line 01\n",
	} {
		if r := call(t, read, map[string]any{"id": id, "search": search}); !strings.HasPrefix(r.Text(), want) {
			t.Errorf("%s: %q, want %q", search, r.Text(), want)
		}
	}
	if r := call(t, read, map[string]any{"id": id, "search": "^line"}); !strings.HasSuffix(r.Text(), "[stopped after 50: continue with offset 400]\n") {
		t.Errorf("many: %q", r.Text())
	}
}

func TestOutputIsReadableOnlyByItsSession(t *testing.T) {
	t.Parallel()
	for name, store := range stores(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			id := kept(t, call(t, tool.Wrap(says(t, tool.Text(strings.Repeat("x", 100)), nil), output.Keep(store, output.Options{Limit: 50})), nil)).ID
			other, _, err := store.PutFrom(t.Context(), strings.NewReader("a payload of something else"))
			if err != nil {
				t.Fatal(err)
			}
			read := reader(t, store)
			for session, name := range map[content.SessionID]string{"other": id, "s": other, "": id, "s2": "../../etc/passwd", "s3": strings.ToUpper(id)} {
				raw, err := json.Marshal(map[string]any{"id": name})
				if err != nil {
					t.Fatal(err)
				}
				r := tool.Invoke(t.Context(), read, tool.Call{Session: session, Input: raw}).Result
				if r.Code != output.CodeGone {
					t.Errorf("session %q reads %s: %q", session, name, r.Text())
				}
			}
		})
	}
}

type broken struct{}

func (broken) PutFrom(context.Context, io.ReadSeeker) (string, int64, error) {
	return "", 0, errors.New("disk full")
}

func (broken) CopyTo(context.Context, string, io.Writer) (bool, error) { return false, nil }

func TestOnlyLongOutputIsShortened(t *testing.T) {
	t.Parallel()
	image := content.Part{Kind: content.MediaKind, Media: &content.Media{Modality: "image", MIME: "image/png", Bytes: []byte("png")}}
	long := strings.Repeat("x", 100)
	mixed := tool.Output{Parts: []content.Part{content.TextPart(long), image, content.StructuredPart([]byte(`{"a":1}`))}}
	keep := func(s output.Store) tool.Middleware {
		return output.Keep(s, output.Options{Limit: 60})
	}
	store := output.NewMemory(0)

	r := call(t, tool.Wrap(says(t, mixed, nil), keep(store)), nil)
	if len(r.Output) != 2 || r.Output[1].Kind != content.MediaKind || kept(t, r).Bytes != 108 {
		t.Errorf("mixed: %+v", r)
	}
	r = call(t, tool.Wrap(says(t, tool.Text("short"), nil), keep(store)), nil)
	if r.Text() != "short" || len(r.Metadata) > 0 {
		t.Errorf("short: %+v", r)
	}
	r = call(t, tool.Wrap(says(t, tool.Output{}, tool.Failure("odd", "%s", long)), keep(store)), nil)
	if r.Code != "odd" || !strings.Contains(r.Text(), "The whole output, 100 bytes, is kept") {
		t.Errorf("error: %+v", r)
	}
	r = call(t, tool.Wrap(says(t, tool.Text(long), nil), keep(broken{})), nil)
	if !strings.Contains(r.Text(), "could not be kept: disk full") || len(r.Metadata) > 0 {
		t.Errorf("broken store: %+v", r)
	}
}

func TestMemoryEvictsTheOldest(t *testing.T) {
	t.Parallel()
	m := output.NewMemory(25)
	var ids []string
	for _, text := range []string{"aaaaaaaaaa", "bbbbbbbbbb", "aaaaaaaaaa", "cccccccccc"} {
		id, _, err := m.PutFrom(t.Context(), strings.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, id)
	}
	for i, want := range []bool{false, true, false, true} {
		if ok, err := m.CopyTo(t.Context(), ids[i], io.Discard); ok != want || err != nil {
			t.Errorf("%d: %v, %v", i, ok, err)
		}
	}
	if _, _, err := m.PutFrom(t.Context(), strings.NewReader(strings.Repeat("x", 26))); err == nil {
		t.Error("more than there is room for was kept")
	}
}
