package output_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/tool"
	"github.com/turnlog/turnlog/tool/exec"
	"github.com/turnlog/turnlog/tool/fetch"
	"github.com/turnlog/turnlog/tool/output"
)

// whole reads the stored output that a text refers to.
func whole(t *testing.T, s output.Store, text string) string {
	t.Helper()
	ids := regexp.MustCompile(`id "([0-9a-f]{64})"`).FindAllStringSubmatch(text, -1)
	if len(ids) != 1 {
		t.Fatalf("%d outputs are kept of %.2000q", len(ids), text)
	}
	_, got, ok := strings.Cut(call(t, reader(t, s), map[string]any{"id": ids[0][1], "limit": 65536}).Text(), "\n")
	if !ok {
		t.Fatalf("nothing is kept under %s", ids[0][1])
	}
	return got
}

func keepIn(s output.Store, x tool.Tool) tool.Tool {
	return tool.Wrap(x, output.Keep(s, output.Options{Limit: 1000}))
}

func TestCommandOutputIsStored(t *testing.T) {
	t.Parallel()
	store, long := output.NewMemory(0), strings.Repeat("y\n", 10_000)
	x := keepIn(store, must[tool.Tool](t)(exec.NewShell(t.TempDir(), exec.Options{})))
	const script = "yes | head -c 20000; "
	r := call(t, x, map[string]any{"script": script + "exit 3"})
	if r.IsError || whole(t, store, r.Text()) != long || len(r.Output) != 2 || r.Output[1].Kind != content.StructuredKind {
		t.Errorf("a command that failed: %+v", r)
	}
	if !strings.Contains(r.Output[0].Text, "by offset and limit or with search.]\n[exit status 3]\n") {
		t.Errorf("the end is %q", r.Output[0].Text[len(r.Output[0].Text)-100:])
	}
	r = call(t, x, map[string]any{"script": script + "sleep 60", "timeout_seconds": 1})
	if r.Code != tool.CodeTimeout || whole(t, store, r.Text()) != long {
		t.Errorf("a command that took too long: %+v", r)
	}
	if r = call(t, x, map[string]any{"script": "echo short"}); r.Output[0].Text != "short\n" || len(r.Metadata) > 0 {
		t.Errorf("a short output: %+v", r)
	}
}

func TestProgramOutputIsStored(t *testing.T) {
	t.Parallel()
	store, dir := output.NewMemory(0), t.TempDir()
	program := func(keys, script string) tool.Tool {
		t.Helper()
		name := filepath.Join(t.TempDir(), "x.yaml")
		text := fmt.Sprintf("name: x\ndescription: X.\n%scommand: [/bin/sh, -c, %q]\n", keys, script)
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return must[[]tool.Tool](t)(exec.Load(dir, name, exec.Options{}))[0]
	}
	long := strings.Repeat("y\n", 10_000)
	const json = `printf '['; yes 1, | head -c 20000; printf '1]'`
	for name, row := range map[string]struct{ keys, script, want, code string }{
		"text":   {"", "yes | head -c 20000", long, ""},
		"failed": {"", "yes | head -c 20000; exit 2", long, exec.CodeExit},
		"json":   {"output: json\n", json, "[" + strings.Repeat("1,\n", 6666) + "1,1]", ""},
	} {
		x := program(row.keys, row.script)
		r := call(t, keepIn(store, x), nil)
		if got := whole(t, store, r.Text()); r.Code != row.code || got != row.want {
			t.Errorf("%s: code %q, kept %d bytes, want %d", name, r.Code, len(got), len(row.want))
		}
	}
	if r := call(t, program("output: json\nmax_output: 1000\n", json), nil); r.Code != exec.CodeOutput {
		t.Errorf("where nothing is kept: %+v", r)
	}
}

func TestFetchedContentIsStored(t *testing.T) {
	t.Parallel()
	film, text := bytes.Repeat([]byte("film"), 100_000), strings.Repeat("line\n", 10_000)
	pages := map[string]struct{ kind, body string }{
		"/film.mp4": {"video/mp4", string(film)}, "/dot.png": {"image/png", "\x89PNG"}, "/long": {"text/plain", text}, "/x.zip": {"application/zip", "PK\x00"},
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", pages[r.URL.Path].kind)
		_, _ = io.WriteString(w, pages[r.URL.Path].body)
	}))
	t.Cleanup(server.Close)
	store := output.NewMemory(0)
	x := must[tool.Tool](t)(fetch.New(fetch.Options{Hosts: []string{strings.TrimPrefix(server.URL, "http://")}, Private: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, MaxBytes: 5000}))
	get := func(x tool.Tool, path string) content.ToolResult {
		return call(t, x, map[string]any{"url": server.URL + path})
	}
	r := get(keepIn(store, x), "/film.mp4")
	if len(r.Output) != 2 || r.Output[1].Name != "film.mp4" || r.Output[1].Size() != int64(len(film)) || r.Output[0].Text != "200 OK; "+server.URL+"/film.mp4; video/mp4; 400000 bytes; attached" {
		t.Errorf("a film: %.500v", r.Output)
	}
	var got bytes.Buffer
	id, _ := content.BlobID(r.Output[1].Media.URI)
	if ok, err := store.CopyTo(t.Context(), id, &got); !ok || err != nil || !bytes.Equal(got.Bytes(), film) {
		t.Errorf("of the film %d bytes are kept: %v, %v", got.Len(), ok, err)
	}
	if r = get(keepIn(store, x), "/dot.png"); len(r.Output) != 2 || string(r.Output[1].Media.Bytes) != "\x89PNG" {
		t.Errorf("a small image: %+v", r.Output)
	}
	r = get(keepIn(store, x), "/long")
	if whole(t, store, r.Text()) != text[:50_000] || !strings.Contains(r.Text(), "; text/plain; 50000 bytes; its beginning follows\n\nline\n") {
		t.Errorf("a long text: %q", r.Text())
	}
	if r = get(keepIn(store, x), "/x.zip"); len(r.Output) != 1 || !strings.Contains(r.Text(), "not text") {
		t.Errorf("an archive: %+v", r.Output)
	}
	if r = get(x, "/film.mp4"); len(r.Output) != 1 || !strings.Contains(r.Text(), "only the first 5000 bytes were read") {
		t.Errorf("where nothing is kept: %+v", r.Output)
	}
}

// damaged is a store that finds the damage only after it has written the output.
type damaged struct{ output.Store }

func (d damaged) CopyTo(ctx context.Context, id string, w io.Writer) (bool, error) {
	ok, err := d.Store.CopyTo(ctx, id, w)
	return ok, errors.Join(err, errors.New("it does not match its digest"))
}

// TestDamagedOutputIsNotServed also checks that the undamaged part is not shown.
func TestDamagedOutputIsNotServed(t *testing.T) {
	t.Parallel()
	store := damaged{output.NewMemory(0)}
	id := kept(t, call(t, keepIn(store, says(t, tool.Text(strings.Repeat("good ", 1000)), nil)), nil)).ID
	for _, in := range []map[string]any{{"id": id, "limit": 10}, {"id": id, "search": "good"}} {
		if r := call(t, reader(t, store), in); !r.IsError || !strings.Contains(r.Text(), "does not match its digest") || strings.Contains(r.Text(), "good") {
			t.Errorf("%v: %q", in, r.Text())
		}
	}
}
