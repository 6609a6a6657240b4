package content

import (
	"encoding/json"
	"strconv"
	"strings"
)

// MetaSize is the key of a part's metadata under which stands how many bytes its blob
// has, as whoever attached it says.
const MetaSize = "size"

const blobScheme = "blob:"

// BlobURI is the reference to bytes that are kept under their SHA-256, in hexadecimal.
func BlobURI(id string) string { return blobScheme + id }

// BlobID returns what a reference to a blob names; ok is false for any other URI. The
// name may be nonsense: no blob has it then.
func BlobID(uri string) (id string, ok bool) { return strings.CutPrefix(uri, blobScheme) }

// FilePart returns a part that holds a file.
func FilePart(name, mime string, data []byte) Part {
	return Part{Kind: FileKind, Name: name, Media: &Media{Modality: Modality(mime), MIME: mime, Bytes: data}}
}

// BlobPart returns a part that refers to a file, of that many bytes, by its SHA-256.
func BlobPart(name, mime, id string, size int64) Part {
	return Part{
		Kind: FileKind, Name: name, Media: &Media{Modality: Modality(mime), MIME: mime, URI: BlobURI(id)},
		Metadata: Metadata{{Key: MetaSize, Value: json.RawMessage(strconv.FormatInt(size, 10))}},
	}
}

// Size is how many bytes the part's media have: those that it holds, or as many as
// whoever attached them says; 0 if that is not known.
func (p Part) Size() int64 {
	if p.Media != nil && len(p.Media.Bytes) > 0 {
		return int64(len(p.Media.Bytes))
	}
	raw, _ := p.Metadata.Get(MetaSize)
	n, err := strconv.ParseInt(string(raw), 10, 64)
	if err != nil {
		return 0
	}
	return max(n, 0)
}

// Modality is the kind of media that a MIME type is of.
func Modality(mime string) string {
	kind, _, _ := strings.Cut(mime, "/")
	switch kind {
	case "image", "audio", "video":
		return kind
	}
	if Textual(mime) || baseType(mime) == "application/pdf" {
		return "document"
	}
	return "binary"
}

// Textual reports whether bytes of a MIME type can be read as they are.
func Textual(mime string) bool {
	mime = baseType(mime)
	switch mime {
	case "application/json", "application/xml", "application/yaml":
		return true
	}
	return strings.HasPrefix(mime, "text/")
}

// baseType is a MIME type without its parameters.
func baseType(mime string) string {
	mime, _, _ = strings.Cut(strings.ToLower(mime), ";")
	return strings.TrimSpace(mime)
}
