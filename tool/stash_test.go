package tool_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/tool"
)

// stash keeps everything in memory.
type stash struct {
	shown int
	most  int64

	texts, files []string
	total        int64
}

func (s *stash) Room() (int, int64) { return s.shown, s.most }

func (s *stash) Text(_ context.Context, shown string, src io.ReadSeeker, total int64) content.Part {
	raw, err := io.ReadAll(src)
	if err != nil {
		return content.TextPart(err.Error())
	}
	s.texts, s.total = append(s.texts, string(raw)), total
	return content.TextPart(shown + "[kept]")
}

func (s *stash) File(_ context.Context, name, mime string, src io.ReadSeeker) (content.Part, error) {
	_, err := src.Seek(0, io.SeekStart)
	raw, readErr := io.ReadAll(src)
	s.files = append(s.files, string(raw))
	return content.BlobPart(name, mime, "x", int64(len(raw))), errors.Join(err, readErr)
}

func TestSpoolStoresHiddenOutput(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("0123456789", 10)
	for name, row := range map[string]struct {
		stash       *stash
		limit       int
		write       []string
		shown, kept string
	}{
		"short":             {&stash{shown: 20, most: 1000}, 20, []string{"01234", "56789", "0123456789"}, long[:20], ""},
		"long":              {&stash{shown: 20, most: 1000}, 50, []string{long[:7], long[7:20], long[20:]}, "0123456789\n[… 80 bytes were cut here …]\n0123456789[kept]", long},
		"the tool's limit":  {&stash{shown: 50, most: 1000}, 20, []string{long}, "0123456789\n[… 80 bytes were cut here …]\n0123456789[kept]", long},
		"more than is kept": {&stash{shown: 20, most: 33}, 20, []string{long[:30], long[30:]}, "0123456789\n[… 80 bytes were cut here …]\n0123456789[kept]", long[:33]},
		"no stash":          {nil, 20, []string{long}, "0123456789\n[… 80 bytes were cut here …]\n0123456789", ""},
	} {
		var c tool.Call
		if row.stash != nil {
			c.Stash = row.stash
		}
		s := c.Spool(row.limit)
		for _, text := range row.write {
			if n, err := s.Write([]byte(text)); n != len(text) || err != nil {
				t.Errorf("%s: Write = %d, %v", name, n, err)
			}
		}
		if got := s.Part(t.Context()).Text; got != row.shown {
			t.Errorf("%s: shown %q", name, got)
		}
		s.Close()
		if row.kept == "" {
			if row.stash != nil && len(row.stash.texts) > 0 {
				t.Errorf("%s: kept %q", name, row.stash.texts)
			}
			continue
		}
		if len(row.stash.texts) != 1 || row.stash.texts[0] != row.kept || row.stash.total != int64(len(long)) {
			t.Errorf("%s: kept %q of %d bytes", name, row.stash.texts, row.stash.total)
		}
	}
}

func TestAttach(t *testing.T) {
	t.Parallel()
	s := &stash{most: 200 << 10}
	with, without := tool.Call{Stash: s}, tool.Call{}
	const small, large = 64 << 10, 200 << 10
	p, err := with.Attach(t.Context(), "a.png", "image/png", bytes.NewReader(make([]byte, small)))
	if err != nil || len(p.Media.Bytes) != small || len(s.files) > 0 || p.Name != "a.png" {
		t.Errorf("a small file: %v, %d kept", err, len(s.files))
	}
	data := bytes.Repeat([]byte("0123456789abcdef"), large/16)
	p, err = with.Attach(t.Context(), "a.png", "image/png", bytes.NewReader(data))
	if err != nil || len(p.Media.Bytes) > 0 || p.Size() != large || len(s.files) != 1 || s.files[0] != string(data) {
		t.Errorf("a large file: %v, %+v", err, p)
	}
	p, err = without.Attach(t.Context(), "a.png", "image/png", bytes.NewReader(data))
	if err != nil || !bytes.Equal(p.Media.Bytes, data) {
		t.Errorf("nothing is kept: %v", err)
	}
	for name, call := range map[string]func() error{
		"too large": func() error {
			_, err := with.Attach(t.Context(), "a", "b", bytes.NewReader(make([]byte, large+1)))
			return err
		},
		"too large for a result": func() error {
			_, err := without.Attach(t.Context(), "a", "b", bytes.NewReader(make([]byte, 1<<20)))
			return err
		},
	} {
		if e, ok := errors.AsType[*tool.Error](call()); !ok || e.Code != tool.CodeTooLarge {
			t.Errorf("%s: %v", name, e)
		}
	}
	if len(s.files) != 1 {
		t.Errorf("%d files were kept", len(s.files))
	}
}

// endless never runs out.
type endless struct{ tick func() }

func (e endless) Read(p []byte) (int, error) {
	e.tick()
	return len(p), nil
}

func TestCancelStopsAnAttachment(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancelCause(t.Context())
	enough, reads := errors.New("enough"), 0
	s := &stash{most: 1 << 40}
	_, err := tool.Call{Stash: s}.Attach(ctx, "a", "b", endless{func() {
		if reads++; reads == 10 {
			cancel(enough)
		}
	}})
	if !errors.Is(err, enough) || reads > 11 || len(s.files) > 0 {
		t.Errorf("Attach = %v after %d reads, %d kept", err, reads, len(s.files))
	}
}

func TestToolCannotReferToForeignBlobs(t *testing.T) {
	t.Parallel()
	own, foreign := content.BlobPart("a.png", "image/png", "own", 7), content.BlobPart("b.png", "image/png", "foreign", 7)
	web := content.Part{Kind: content.MediaKind, Media: &content.Media{MIME: "image/png", URI: "https://example.org/a.png"}}
	x, err := tool.Func("f", "Refers.", func(context.Context, struct{}) (tool.Output, error) {
		return tool.Output{Parts: []content.Part{own, foreign, web}, Stashed: []string{"own"}}, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	out := tool.Invoke(t.Context(), x, tool.Call{ID: "c", Name: "f", Input: []byte("{}")}).Result.Output
	if len(out) != 3 || out[0].Media == nil || out[0].Media.URI != "blob:own" || out[2].Media == nil {
		t.Errorf("output %+v", out)
	}
	if out[1].Media != nil || out[1].Text != "[b.png was left out: it refers to a blob of another call]" {
		t.Errorf("the foreign one: %+v", out[1])
	}
}
