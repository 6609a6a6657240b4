package output_test

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/tool"
	"github.com/turnlog/turnlog/tool/exec"
	"github.com/turnlog/turnlog/tool/fetch"
	"github.com/turnlog/turnlog/tool/output"
)

const (
	large = 40_000_000
	spare = 16 << 20 // bytes that may be allocated on the way, all in all
)

var many = bytes.Repeat([]byte("this is a long line\n"), 1000)

// allocated returns how many bytes f allocates, whether or not they are freed, so that
// garbage collection has no influence. Tests that use it must not
// be parallel.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// lines yields lines of 20 bytes.
type lines struct {
	left int
	rest []byte
}

func (l *lines) Read(p []byte) (int, error) {
	if l.left == 0 {
		return 0, io.EOF
	}
	if len(l.rest) == 0 {
		l.rest = many
	}
	n := copy(p[:min(len(p), l.left)], l.rest)
	l.rest, l.left = l.rest[n:], l.left-n
	return n, nil
}

func must[T any](t *testing.T) func(T, error) T {
	t.Helper()
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// largeTools stream large bytes of output and hold none of it.
func largeTools(t *testing.T) map[string]struct {
	tool tool.Tool
	in   map[string]any
} {
	t.Helper()
	root := t.TempDir()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain")
		_, _ = io.CopyBuffer(w, struct{ io.Reader }{&lines{left: large}}, make([]byte, 64<<10)) // the client may have gone
	}))
	t.Cleanup(server.Close)
	u := must[*url.URL](t)(url.Parse(server.URL))
	manifest := filepath.Join(root, "many.yaml")
	text := "name: many\ndescription: Writes much.\ncommand: [/bin/sh, -c, \"head -c 40000000 /dev/zero | tr '\\\\0' x\"]\n"
	if err := os.WriteFile(manifest, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	type row = struct {
		tool tool.Tool
		in   map[string]any
	}
	return map[string]row{
		"shell":      {must[tool.Tool](t)(exec.NewShell(root, exec.Options{})), map[string]any{"script": "yes this is a line | head -c 40000000"}},
		"executable": {must[[]tool.Tool](t)(exec.Load(root, manifest, exec.Options{}))[0], nil},
		"fetch": {
			must[tool.Tool](t)(fetch.New(fetch.Options{Hosts: []string{u.Host}, Private: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}})),
			map[string]any{"url": server.URL},
		},
		"function": {must[tool.Tool](t)(tool.CallFunc("f", "Writes much.", func(ctx context.Context, c tool.Call, _ struct{}) (tool.Output, error) {
			out := c.Spool(1 << 20)
			defer out.Close()
			_, err := io.Copy(out, &lines{left: large})
			return tool.Output{Parts: []content.Part{out.Part(ctx)}}, err
		})), nil},
	}
}

// TestLargeOutputIsNeverInMemory runs tools that stream their output and reads near its
// end.
func TestLargeOutputIsNeverInMemory(t *testing.T) { //nolint:paralleltest // it measures allocations
	store := disk(t.TempDir())
	read := reader(t, store)
	for name, row := range largeTools(t) {
		x := tool.Wrap(row.tool, output.Keep(store, output.Options{Limit: 20_000}))
		var r content.ToolResult
		if n := allocated(func() { r = call(t, x, row.in) }); n > spare {
			t.Errorf("%s: %d bytes were allocated for an output of %d", name, n, large)
		}
		k := kept(t, r)
		if r.IsError || k.Bytes != large || len(r.Text()) > 25_000 {
			t.Fatalf("%s: kept %+v, the model sees %d bytes: %.300q", name, k, len(r.Text()), r.Text())
		}
		if name == "executable" || name == "function" {
			continue // what they kept is read like that of the others
		}
		var piece, found content.ToolResult
		n := allocated(func() {
			piece = call(t, read, map[string]any{"id": k.ID, "offset": large - 100})
			found = call(t, read, map[string]any{"id": k.ID, "search": "line", "offset": large - 1000})
		})
		if n > spare {
			t.Errorf("%s: %d bytes were allocated to read a piece", name, n)
		}
		if !strings.HasPrefix(piece.Text(), "output: bytes 39999900 to 40000000 of 40000000; the end\n") || len(piece.Text()) != 156 {
			t.Errorf("%s: read %q", name, piece.Text())
		}
		if !strings.HasPrefix(found.Text(), "3999") {
			t.Errorf("%s: found %q", name, found.Text())
		}
	}
}

// TestLargeFileIsNeverInMemory attaches a stream.
func TestLargeFileIsNeverInMemory(t *testing.T) { //nolint:paralleltest // it measures allocations
	store := disk(t.TempDir())
	x := must[tool.Tool](t)(tool.CallFunc("f", "Attaches a film.", func(ctx context.Context, c tool.Call, _ struct{}) (tool.Output, error) {
		p, err := c.Attach(ctx, "a.mp4", "video/mp4", &lines{left: large})
		return tool.Output{Parts: []content.Part{content.TextPart("here"), p}}, err
	}))
	var r content.ToolResult
	if n := allocated(func() { r = call(t, tool.Wrap(x, output.Keep(store, output.Options{})), nil) }); n > spare {
		t.Errorf("%d bytes were allocated for a file of %d", n, large)
	}
	if len(r.Output) != 2 || r.Output[1].Size() != large || len(r.Output[1].Media.Bytes) > 0 {
		t.Fatalf("result %.300v", r)
	}
	id, _ := content.BlobID(r.Output[1].Media.URI)
	var got int64
	ok, err := store.CopyTo(t.Context(), id, writerFunc(func(p []byte) { got += int64(len(p)) }))
	if !ok || err != nil || got != large {
		t.Errorf("%d bytes are kept: %v, %v", got, ok, err)
	}
}

type writerFunc func(p []byte)

func (f writerFunc) Write(p []byte) (int, error) {
	f(p)
	return len(p), nil
}

// TestOutputInMemoryIsNotCopied runs a tool that returns a large value.
func TestOutputInMemoryIsNotCopied(t *testing.T) { //nolint:paralleltest // it measures allocations
	const large = 20_000_000
	store := disk(t.TempDir())
	text := strings.Repeat("0123456789", large/10)
	image := content.Part{Kind: content.MediaKind, Media: &content.Media{Modality: "image", MIME: "image/png", Bytes: make([]byte, large)}}
	for name, out := range map[string]tool.Output{
		"text":  tool.Text(text),
		"image": {Parts: []content.Part{image}},
		"mixed": {Parts: []content.Part{content.TextPart(text[:large/2]), image, content.StructuredPart([]byte(`{"a":1}`)), content.TextPart(text[large/2:])}},
	} {
		x := tool.Wrap(says(t, out, nil), output.Keep(store, output.Options{}))
		var r content.ToolResult
		if n := allocated(func() { r = call(t, x, nil) }); n > large/4 {
			t.Errorf("%s: %d bytes were allocated", name, n)
		}
		if name != "image" && kept(t, r).Bytes < large {
			t.Errorf("%s: kept %+v", name, kept(t, r))
		}
		for _, p := range r.Output {
			if p.Media != nil && (p.Size() != large || len(p.Media.Bytes) > 0 || p.Kind != content.MediaKind || p.Media.Modality != "image") {
				t.Errorf("%s: part %+v", name, p)
			}
		}
		if last := r.Output[len(r.Output)-1]; name != "text" && last.Media == nil {
			t.Errorf("%s: the last part is %.200q", name, last.Text)
		}
	}
}

// TestLongLineIsSearchedInPieces has a match across two pieces.
func TestLongLineIsSearchedInPieces(t *testing.T) {
	t.Parallel()
	store := output.NewMemory(0)
	const piece = 256 << 10
	whole := bytes.Repeat([]byte("x"), 3*piece)
	for _, at := range []int{100, piece - 3, 2*piece - 5000} {
		copy(whole[at:], "needle")
	}
	text := string(whole) + "\nneedle in a line of its own\n"
	id := kept(t, call(t, tool.Wrap(says(t, tool.Text(text), nil), output.Keep(store, output.Options{Limit: 50})), nil)).ID
	got := call(t, reader(t, store), map[string]any{"id": id, "search": "needle"}).Text()
	var at []string
	for line := range strings.Lines(got) {
		offset, shown, ok := strings.Cut(line, ":")
		if ok && strings.Contains(shown, "needle") {
			at = append(at, offset)
		}
	}
	want := []string{"0", strconv.Itoa(piece - 103), strconv.Itoa(2*piece - 5100), strconv.Itoa(3*piece + 1)}
	if strings.Join(at, " ") != strings.Join(want, " ") {
		t.Errorf("found at %v, want %v: %s", at, want, got)
	}
}
