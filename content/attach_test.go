package content

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestAFileIsHeldOrReferredTo(t *testing.T) {
	t.Parallel()
	id := strings.Repeat("0f", 32)
	p := BlobPart("a.png", "image/png", id, 20<<20)
	if got, ok := BlobID(p.Media.URI); !ok || got != id || p.Size() != 20<<20 || p.Media.Modality != "image" {
		t.Errorf("part %+v refers to %q", p, got)
	}
	raw, err := json.Marshal(p)
	var back Part
	if err == nil {
		err = json.Unmarshal(raw, &back)
	}
	if err != nil || back.Size() != p.Size() || back.Media.URI != p.Media.URI {
		t.Errorf("%s is read as %+v, %v", raw, back, err)
	}
	if p := FilePart("a.txt", "text/plain", []byte("four")); p.Size() != 4 || p.Kind != FileKind {
		t.Errorf("part %+v", p)
	}
	for _, uri := range []string{"", "https://example.org/a", "file:///etc/passwd", "data:,x", "Blob:" + id} {
		if got, ok := BlobID(uri); ok {
			t.Errorf("%q refers to %q", uri, got)
		}
	}
}

func TestAnInvalidSizeIsUnknown(t *testing.T) {
	t.Parallel()
	for _, bad := range []string{"", "-1", `"7"`, "1e3", "99999999999999999999", "null"} {
		p := Part{Metadata: Metadata{{Key: MetaSize, Value: json.RawMessage(bad)}}}
		if n := p.Size(); n != 0 {
			t.Errorf("%s: size %d", bad, n)
		}
	}
}

func TestModalities(t *testing.T) {
	t.Parallel()
	for mime, want := range map[string]string{
		"image/png": "image", "audio/wav": "audio", "video/mp4": "video", "application/pdf": "document",
		"Text/Plain; charset=utf-8": "document", "application/json": "document", "application/zip": "binary", "": "binary",
	} {
		if got := Modality(mime); got != want {
			t.Errorf("%q is %s, want %s", mime, got, want)
		}
	}
}

func TestTextualTypes(t *testing.T) {
	t.Parallel()
	for mime, want := range map[string]bool{
		"text/plain": true, "Application/JSON": true, "application/x-yaml": true, "application/ld+json": true, "image/svg+xml": true,
		"application/pdf": false, "application/octet-stream": false, "": false,
	} {
		if Textual(mime+"; charset=utf-8") != want {
			t.Errorf("Textual(%q) = %t", mime, !want)
		}
	}
}
