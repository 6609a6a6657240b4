package tool_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/tool"
)

func TestOutputIsPassedOnUnchanged(t *testing.T) {
	t.Parallel()
	parts := []content.Part{
		content.TextPart("one"),
		content.StructuredPart(json.RawMessage(`{"a": 1}`)),
		{Kind: content.FileKind, Name: "a.png", Media: &content.Media{MIME: "image/png", Bytes: []byte{1, 2}}},
		{Kind: content.CustomKind, Name: "chart", Data: json.RawMessage(`[1]`)},
	}
	r := tool.Invoke(t.Context(), returning(tool.Output{Parts: parts}), tool.Call{ID: "c1", Name: "other"})
	want := content.ToolResult{CallID: "c1", Name: "other", Status: content.StatusOK, Output: parts}
	if diff := cmp.Diff(want, r.Result); diff != "" {
		t.Error(diff)
	}
}

func TestChangedPathsCountOnlyForSuccessfulWrites(t *testing.T) {
	t.Parallel()
	out := tool.Output{ChangedPaths: []string{"b/c.go", "a.go", "./a.go", "../up", "/etc/passwd", ".", "x/../../y"}}
	writer := returning(out)
	got := tool.Invoke(t.Context(), writer, tool.Call{}).ChangedPaths
	if diff := cmp.Diff([]string{"a.go", "b/c.go"}, got); diff != "" {
		t.Error(diff)
	}
	reader := writer
	reader.spec.Writes = false
	if got := tool.Invoke(t.Context(), reader, tool.Call{}).ChangedPaths; got != nil {
		t.Errorf("a tool that does not write changed %v", got)
	}
	out.Parts = []content.Part{content.StructuredPart(json.RawMessage("{"))}
	if got := tool.Invoke(t.Context(), returning(out), tool.Call{}).ChangedPaths; got != nil {
		t.Errorf("a failed call changed %v", got)
	}
}

func TestReservedMetadataIsStripped(t *testing.T) {
	t.Parallel()
	p := content.TextPart("x")
	p.Metadata = content.Metadata{}.With(content.MetaWithheld, true).With("page", 3)
	r := tool.Invoke(t.Context(), returning(tool.Output{
		Parts: []content.Part{p},
		Metadata: content.Metadata{ // neither sorted nor all JSON
			{Key: "z", Value: json.RawMessage(`"last"`)},
			{Key: content.MetaTruncated, Value: json.RawMessage(`1`)},
			{Key: "a", Value: json.RawMessage(`oops`)},
		},
	}), tool.Call{}).Result
	if got := toJSON(t, r.Metadata); !strings.HasPrefix(got, `{"a":"`) || !strings.HasSuffix(got, `,"z":"last"}`) {
		t.Errorf("metadata = %s", got)
	}
	if got := toJSON(t, r.Output[0].Metadata); got != `{"page":3}` {
		t.Errorf("metadata of the part = %s", got)
	}
}

func TestInvalidUTF8IsReplacedAndNoted(t *testing.T) {
	t.Parallel()
	r := tool.Invoke(t.Context(), returning(tool.Output{Parts: []content.Part{
		content.TextPart("caf\xe9"),
		content.StructuredPart(json.RawMessage("{\"n\":\"\xff\"}")),
	}}), tool.Call{}).Result
	if got := r.Text(); got != "caf\uFFFD{\"n\":\"\uFFFD\"}" {
		t.Errorf("text = %q", got)
	}
	if got := toJSON(t, r.Metadata); got != `{"invalid_utf8":true}` {
		t.Errorf("metadata = %s", got)
	}
}

func TestLongOutputKeepsItsHeadAndTail(t *testing.T) {
	t.Parallel()
	text := "first line\n" + strings.Repeat("é", 1<<20) + "\nlast line"
	r := tool.Invoke(t.Context(), returning(tool.Text(text)), tool.Call{}).Result
	got := r.Text()
	if len(got) > 1<<20+100 || !utf8.ValidString(got) {
		t.Errorf("%d bytes, valid: %v; want at most 1 MiB and a note", len(got), utf8.ValidString(got))
	}
	if !strings.HasPrefix(got, "first line\né") || !strings.HasSuffix(got, "é\nlast line") {
		t.Errorf("ends are %q and %q", got[:20], got[len(got)-20:])
	}
	cut, _ := r.Metadata.Get(content.MetaTruncated)
	if !strings.Contains(got, fmt.Sprintf("\n[… %s bytes were cut here …]\n", cut)) {
		t.Errorf("metadata says %s bytes, the text does not", cut)
	}
}

func TestOutputThatDoesNotFit(t *testing.T) {
	t.Parallel()
	small := tool.Invoker{MaxOutput: 20}
	image := &content.Media{MIME: "image/png", Bytes: make([]byte, 30)}
	for name, row := range map[string]struct {
		parts []content.Part
		want  string
		cut   string
	}{
		"fits":       {[]content.Part{content.TextPart("12345678901234567890")}, "12345678901234567890", ""},
		"text":       {[]content.Part{content.TextPart("123456789012345678901")}, "1234567890\n[… 1 bytes were cut here …]\n2345678901", "1"},
		"structured": {[]content.Part{content.StructuredPart(json.RawMessage(`{"a":"1234567890123456"}`))}, "{\"a\":\"1234\n[… 4 bytes were cut here …]\n90123456\"}", "4"},
		"media":      {[]content.Part{{Kind: content.MediaKind, Media: image}}, "[… 30 bytes of image/png were left out …]", "30"},
		"more parts": {
			[]content.Part{content.TextPart("12345678901234567890"), content.TextPart("x"), {Kind: content.MediaKind, Media: image}},
			"12345678901234567890\n[… 2 more parts were left out …]", "31",
		},
		"empty parts": {make([]content.Part, 5), "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for i := range row.parts {
				if row.parts[i].Kind == "" {
					row.parts[i].Kind = content.TextKind
				}
			}
			r := small.Invoke(t.Context(), returning(tool.Output{Parts: row.parts}), tool.Call{}).Result
			cut, _ := r.Metadata.Get(content.MetaTruncated)
			if r.Text() != row.want || string(cut) != row.cut {
				t.Errorf("got %q, %s cut; want %q, %s", r.Text(), cut, row.want, row.cut)
			}
		})
	}

	many := make([]content.Part, 5000)
	for i := range many {
		many[i] = content.TextPart("")
	}
	if r := tool.Invoke(t.Context(), returning(tool.Output{Parts: many}), tool.Call{}).Result; len(r.Output) != 1001 {
		t.Errorf("%d parts, want 1000 and a note", len(r.Output))
	}
	long := failing(errors.New(strings.Repeat("x", 1000)))
	if r := small.Invoke(t.Context(), long, tool.Call{}).Result; len(r.Text()) > 100 {
		t.Errorf("an error of %d bytes was not cut", len(r.Text()))
	}
	meta := tool.Output{Metadata: content.Metadata{}.With("m", strings.Repeat("x", 1000))}
	if r := small.Invoke(t.Context(), returning(meta), tool.Call{}).Result; toJSON(t, r.Metadata) != `{"truncated":1002}` {
		t.Errorf("metadata = %s", toJSON(t, r.Metadata))
	}
}

func TestInvalidOutputIsAFailure(t *testing.T) {
	t.Parallel()
	for want, p := range map[string]content.Part{
		"not valid JSON":    content.StructuredPart(json.RawMessage(`{"a":`)),
		"it has no content": {Kind: content.MediaKind},
		`a result cannot hold a part of kind "tool_call"`: content.CallPart(content.ToolCall{ID: "x"}),
		`a result cannot hold a part of kind ""`:          {},
	} {
		r := tool.Invoke(t.Context(), returning(tool.Output{Parts: []content.Part{p}}), tool.Call{}).Result
		if got := r.Text(); got != "Tool failed: part 1 of its output: "+want {
			t.Errorf("text = %q, want %q", got, want)
		}
	}
}

func toJSON(t *testing.T, v any) string {
	t.Helper()
	raw, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}
