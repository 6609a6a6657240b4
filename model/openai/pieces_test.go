package openai

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/turnlog/turnlog/content"
)

func TestPiecesOfMedia(t *testing.T) {
	t.Parallel()
	named := func(name string, p content.Part) content.Part {
		p.Kind, p.Name = content.FileKind, name
		return p
	}
	for name, tt := range map[string]struct {
		part            content.Part
		responses, chat piece
	}{
		"image":          {media("", "image/png", "x", ""), piece{image: "data:image/png;base64,eA=="}, piece{image: "data:image/png;base64,eA=="}},
		"image by URL":   {media("image", "", "", "https://e/x"), piece{image: "https://e/x"}, piece{image: "https://e/x"}},
		"image, no type": {media("image", "", "x", ""), piece{image: "data:image/png;base64,eA=="}, piece{image: "data:image/png;base64,eA=="}},
		"mp3": {
			media("audio", "audio/mpeg", "x", ""),
			piece{text: "[audio/mpeg, 1 bytes, which cannot be shown here]"},
			piece{audio: "eA==", audioFormat: "mp3"},
		},
		"ogg": {
			media("", "audio/ogg", "x", ""),
			piece{text: "[audio/ogg, 1 bytes, which cannot be shown here]"},
			piece{text: "[audio/ogg, 1 bytes, which cannot be shown here]"},
		},
		"pdf": {
			media("document", "application/pdf", "x", ""),
			piece{file: "data:application/pdf;base64,eA==", fileName: "document.pdf"},
			piece{file: "data:application/pdf;base64,eA==", fileName: "document.pdf"},
		},
		"pdf by URL": {
			named("a.pdf", media("", "application/pdf", "", "https://e/a.pdf")),
			piece{fileURL: "https://e/a.pdf"},
			piece{text: "[a.pdf, application/pdf at https://e/a.pdf, which cannot be shown here]"},
		},
		"data URL": {
			media("document", "application/pdf", "", "data:application/pdf;base64,eA=="),
			piece{file: "data:application/pdf;base64,eA==", fileName: "document.pdf"},
			piece{file: "data:application/pdf;base64,eA==", fileName: "document.pdf"},
		},
		"text":        {named("a.go", media("", "text/x-go", "package a", "")), piece{text: "File a.go:\npackage a"}, piece{text: "File a.go:\npackage a"}},
		"JSON":        {media("", "application/vnd.x+json; charset=utf-8", "{}", "https://e/b.json"), piece{text: "File b.json:\n{}"}, piece{text: "File b.json:\n{}"}},
		"no text":     {media("", "text/plain", "\xff", ""), piece{file: "data:text/plain;base64,/w==", fileName: "file"}, piece{file: "data:text/plain;base64,/w==", fileName: "file"}},
		"nothing":     {media("image", "", "", ""), piece{text: "[image, which cannot be shown here]"}, piece{text: "[image, which cannot be shown here]"}},
		"broken type": {media("", "a/b/c;;", "x", ""), piece{file: "data:a/b/c;;;base64,eA==", fileName: "file"}, piece{file: "data:a/b/c;;;base64,eA==", fileName: "file"}},
	} {
		for api, want := range map[API]piece{Responses: tt.responses, Chat: tt.chat} {
			if diff := cmp.Diff([]piece{want}, pieces(api, []content.Part{tt.part}), cmp.AllowUnexported(piece{})); diff != "" {
				t.Errorf("%s through %s: -want +got\n%s", name, api, diff)
			}
		}
	}
}

func TestPiecesOfFailures(t *testing.T) {
	t.Parallel()
	failure := func(parts ...content.Part) content.ToolResult {
		return content.ToolResult{Status: content.StatusUnknown, IsError: true, Output: parts}
	}
	for name, tt := range map[string]struct {
		result content.ToolResult
		want   []piece
	}{
		"text":        {failure(content.TextPart("no such file")), []piece{{text: "Error: no such file"}}},
		"says so":     {failure(content.TextPart("error: no")), []piece{{text: "error: no"}}},
		"no text":     {failure(), []piece{{text: "Error: unknown"}}},
		"shows first": {failure(media("image", "", "", "u")), []piece{{text: "Error: unknown"}, {image: "u"}}},
		"a success":   {content.NewResult("c", "t", content.StatusOK, "fine"), []piece{{text: "fine"}}},
	} {
		if diff := cmp.Diff(tt.want, resultPieces(Chat, tt.result), cmp.AllowUnexported(piece{})); diff != "" {
			t.Errorf("%s: -want +got\n%s", name, diff)
		}
	}
}

func TestNotificationContainsMediaOfTheResult(t *testing.T) {
	t.Parallel()
	late := content.NewResult("c", "t", content.StatusOK, "known already")
	late.Output = append(late.Output, media("image", "", "", "u"))
	it := content.NewItem(content.Notification, content.TextPart("Background tool call c completed: known already"), content.ResultPart(late))
	want := []piece{
		{text: "<notification>\n"}, {text: "Background tool call c completed: known already"}, {image: "u"}, {text: "\n</notification>"},
	}
	if diff := cmp.Diff(want, inputPieces(Chat, it), cmp.AllowUnexported(piece{})); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}
