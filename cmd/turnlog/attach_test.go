package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/turnlog/turnlog/actor"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/internal/cli"
	"github.com/turnlog/turnlog/internal/testing/clitest"
	"github.com/turnlog/turnlog/jetstream"
	"github.com/turnlog/turnlog/jetstream/admin"
	"github.com/turnlog/turnlog/model/modeltest"
	"github.com/turnlog/turnlog/model/registry"
)

// picture writes a file that starts like a PNG image, and returns its path and bytes.
func picture(t *testing.T, name string, size int) (path string, data []byte) {
	t.Helper()
	data = make([]byte, size)
	r := rand.NewChaCha8([32]byte{byte(size)})
	_, _ = r.Read(data) // never fails
	copy(data, "\x89PNG\x0D\x0A\x1A\x0A")
	return file(t, name, data), data
}

func file(t *testing.T, name string, data []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// seeing configures a node whose model provider records requests and accepts each.
func seeing(t *testing.T) (actor.Config, *modeltest.Server) {
	t.Helper()
	s := modeltest.ServeOne(t, modeltest.Answer{Body: geminiSays})
	vars := map[string]string{"GEMINI_API_KEY": canary, "GOOGLE_GEMINI_BASE_URL": s.URL}
	return actor.Config{Models: registry.New(func(name string) string { return vars[name] }).Open}, s
}

// inline returns the media in the last request to the provider.
func inline(t *testing.T, s *modeltest.Server) (mime string, data []byte) {
	t.Helper()
	asked := s.Asked()
	var r struct {
		Contents []struct {
			Parts []struct {
				InlineData *struct {
					MIMEType string `json:"mimeType"`
					Data     string `json:"data"`
				} `json:"inlineData"`
			} `json:"parts"`
		} `json:"contents"`
	}
	if err := json.Unmarshal(asked[len(asked)-1].Body, &r); err != nil {
		t.Fatal(err)
	}
	for _, c := range r.Contents {
		for _, p := range c.Parts {
			if p.InlineData == nil {
				continue
			}
			raw, err := base64.StdEncoding.DecodeString(p.InlineData.Data)
			if err != nil {
				t.Fatal(err)
			}
			mime, data = p.InlineData.MIMEType, append(data, raw...)
		}
	}
	return mime, data
}

// collected collects blobs of any age.
func collected(t *testing.T, cell *jetstream.Cell) admin.Collected {
	t.Helper()
	c, err := admin.Of(cell).Collect(t.Context(), 0, false)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestAFileTravelsByReference(t *testing.T) {
	t.Parallel()
	cfg, provider := seeing(t)
	url := cellOf(t, cfg)
	cell := cellAt(t, url)
	const large = 6 << 20 // more than a message, or what is read at once, may have
	path, data := picture(t, "large.png", large)
	succeed(t, url, "run", "--session", "s", "--model", "gemini:m", "--file", path, "What is this?")
	if mime, got := inline(t, provider); mime != "image/png" || !bytes.Equal(got, data) {
		t.Errorf("the model saw %d bytes of %s", len(got), mime)
	}
	sum := sha256.Sum256(data)
	size, named := 0, false
	for rec, err := range cell.Journal().Read(t.Context(), "s", 0) {
		if err != nil {
			t.Fatal(err)
		}
		size += len(rec.Payload)
		named = named || bytes.Contains(rec.Payload, []byte(content.BlobURI(hex.EncodeToString(sum[:]))))
	}
	if size > 8<<10 || !named {
		t.Errorf("the journal has %d bytes, names the file: %v", size, named)
	}

	// The entry that names the second file is a blob itself.
	second, data := picture(t, "small.png", 60<<10)
	succeed(t, url, "send", "s", "--wait", "--file", second, strings.Repeat("And this? ", 10_000))
	if c := collected(t, cell); c.Removed > 1 { // the payload of an ask, which is in the journal since
		t.Errorf("collected %+v", c)
	}
	succeed(t, url, "send", "s", "--wait", "and now?")
	if _, got := inline(t, provider); len(got) != large+len(data) || !bytes.Equal(got[large:], data) {
		t.Errorf("a turn later the model saw %d bytes", len(got))
	}
	succeed(t, url, "sessions", "rm", "s", "--keep-blobs")
	if c := collected(t, cell); c.Removed != c.Blobs || c.Removed < 3 || c.Bytes < large {
		t.Errorf("after the deletion, collected %+v", c)
	}
	if _, ok, err := cell.Blobs().Get(t.Context(), hex.EncodeToString(sum[:])); ok || err != nil {
		t.Errorf("the file is still there: %v", err)
	}
}

func TestAFileThatIsGoneEndsNoTurn(t *testing.T) {
	t.Parallel()
	cfg, provider := seeing(t)
	url := cellOf(t, cfg)
	cell := cellAt(t, url)
	path, _ := picture(t, "old.png", 70_000)
	succeed(t, url, "run", "--session", "s", "--model", "gemini:m", "--file", path, "What is this?")
	answer, err := clitest.Dial(t, url).RequestWithContext(t.Context(), "$JS.API.STREAM.PURGE.OBJ_TURNLOG_BLOBS", nil)
	if err != nil || !strings.Contains(string(answer.Data), `"success":true`) {
		t.Fatalf("%v: %s", err, answer.Data)
	}
	succeed(t, url, "send", "s", "--wait", "and now?")
	const note = "old.png, image/png, 70000 bytes; not shown: it is no longer stored"
	if asked := provider.Asked(); len(asked) != 2 || !strings.Contains(string(asked[1].Body), note) {
		t.Errorf("the note is not in the second of %d requests", len(asked))
	}
	var warned []events.Warning
	for rec, err := range cell.Journal().Read(t.Context(), "s", 0) {
		if err != nil {
			t.Fatal(err)
		}
		for _, ev := range rec.Entry.Events {
			if w, ok := ev.(events.Warning); ok {
				warned = append(warned, w)
			}
		}
	}
	if len(warned) != 1 || warned[0].Code != "blob_missing" || !strings.Contains(warned[0].Message, note) {
		t.Errorf("warnings %+v", warned)
	}
}

func TestFilesOfARunInThisProcess(t *testing.T) {
	t.Parallel()
	text := file(t, "notes.md", []byte("# Remember the milk\n"))
	long := file(t, "long.txt", []byte(strings.Repeat("words and words\n", 10_000)))
	image, _ := picture(t, "a.bin", 70_000)
	p := expect(t, cli.CodeOK, "run", "--model", scripted(t, echo), "--file", text, "--file", long, "--file", image, "Look.")
	out := p.out.String()
	for _, want := range []string{
		"You said Look.\nFile notes.md:\n# Remember the milk\n", "File long.txt:\nwords and words\n",
		"[attached: a.bin, image/png, 70000 bytes; not shown: this model takes text only]",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in %.300q", want, out)
		}
	}
	if n := strings.Count(out, "words and words"); n != 10_000 {
		t.Errorf("the model saw %d lines of the long file", n)
	}
	p = expect(t, cli.CodeOK, "task", "--model", scripted(t, echo), "--file", text, "Look.")
	if !strings.Contains(p.out.String(), "# Remember the milk") {
		t.Errorf("task: out %s", p.out)
	}
}

func TestFilesThatCannotBeAttached(t *testing.T) {
	t.Parallel()
	large := file(t, "large", nil)
	if err := os.Truncate(large, 100<<20+1); err != nil {
		t.Fatal(err)
	}
	good := file(t, "good", []byte("x"))
	for path, want := range map[string]string{
		filepath.Join(t.TempDir(), "none"): "no such file or directory",
		"":                                 "no such file or directory",
		t.TempDir():                        "it is a directory: attach its files",
		file(t, "empty", nil):              "it is empty",
		large:                              "it has 104857601 bytes, more than 100 MiB",
		os.DevNull:                         "it is not a regular file",
	} {
		for _, command := range [][]string{{"run"}, {"task"}, {"send", "s"}} {
			p := expect(t, cli.CodeUsage, append(command, "--server", "nats://127.0.0.1:1", "--file", good, "--file", path, "hi")...)
			if hints := p.err.String(); !strings.Contains(hints, want) || strings.Count(hints, "\n") != 1 {
				t.Errorf("%s %q: %s", command[0], path, hints)
			}
		}
	}
	many := []string{"run", "hi"}
	for range 21 {
		many = append(many, "--file", good)
	}
	if p := expect(t, cli.CodeUsage, many...); !strings.Contains(p.err.String(), "21 files, but an input takes at most 20") {
		t.Errorf("err %s", p.err)
	}
}

func TestFilesComeWithLinesOfAChat(t *testing.T) {
	t.Parallel()
	first, second := file(t, "first.txt", []byte("one file")), file(t, "second.txt", []byte("another file"))
	none := filepath.Join(t.TempDir(), "none")
	lines := "a\n/file " + none + "\n/file " + second + "\nb\nc\n"
	p := prepare(t, strings.NewReader(lines), nil).start(t, "chat", "--model", scripted(t, echo), "--file", first)
	if code := p.end(t); code != cli.CodeOK {
		t.Fatalf("code %d, err %s", code, p.err)
	}
	replies := strings.Split(p.out.String(), "You said ")
	if len(replies) != 4 || !strings.HasPrefix(replies[1], "a") || !strings.Contains(replies[1], "one file") || !strings.HasPrefix(replies[2], "b") ||
		!strings.Contains(replies[2], "another file") || strings.Contains(replies[2], "one file") || replies[3] != "c.\n" {
		t.Errorf("out %q", replies)
	}
	if hints := p.err.String(); !strings.Contains(hints, none+": no such file") || !strings.Contains(hints, second+" (text/plain, 12 B) is attached to the next input") {
		t.Errorf("err %q", hints)
	}
	expect(t, cli.CodeUsage, "chat", "--model", "demo", "--file", none)
}

func TestScheduledInputHasItsFile(t *testing.T) {
	t.Parallel()
	url := cellOf(t, node())
	succeed(t, url, "run", "--session", "s", "--model", scripted(t, echo), "one")
	succeed(t, url, "send", "s", "--in", "1s", "--file", file(t, "later.txt", []byte("a late file")), "two")
	awaitEvents(t, url, "s", events.KindTurnFinished, 2)
	if got := succeed(t, url, "wait", "s"); !strings.Contains(got, "a late file") {
		t.Errorf("the turn says %q", got)
	}
}
