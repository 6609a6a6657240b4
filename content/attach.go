package content

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"mime"
	"strconv"
	"strings"
)

// MetaSize is the metadata key for the size of a part's blob in bytes, as stated by the
// sender.
const MetaSize = "size"

const blobScheme = "blob:"

// BlobURI returns the URI of a blob. Its id is the SHA-256 of its bytes in hexadecimal.
func BlobURI(id string) string { return blobScheme + id }

// BlobID returns the id in the URI of a blob, unvalidated. ok is false for other URIs.
func BlobID(uri string) (id string, ok bool) { return strings.CutPrefix(uri, blobScheme) }

// FilePart returns a part that contains a file.
func FilePart(name, mime string, data []byte) Part {
	return Part{Kind: FileKind, Name: name, Media: &Media{Modality: Modality(mime), MIME: mime, Bytes: data}}
}

// DataURLPart returns a part that contains the file of a data URL. Nothing is fetched from other addresses.
func DataURLPart(name, url string) (Part, error) {
	rest, ok := strings.CutPrefix(url, "data:")
	head, data, coded := strings.Cut(rest, ";base64,")
	kind, _, err := mime.ParseMediaType(head)
	raw, bad := base64.StdEncoding.DecodeString(data)
	if !ok || !coded || err != nil || bad != nil {
		return Part{}, errors.New("send files as base64 data URLs: URLs are not fetched")
	}
	return FilePart(name, kind, raw), nil
}

// BlobPart returns a part that refers to a file of the size by its blob id.
func BlobPart(name, mime, id string, size int64) Part {
	return Part{
		Kind: FileKind, Name: name, Media: &Media{Modality: Modality(mime), MIME: mime, URI: BlobURI(id)},
		Metadata: Metadata{{Key: MetaSize, Value: json.RawMessage(strconv.FormatInt(size, 10))}},
	}
}

// Size returns the size of the part's media in bytes: of the bytes that it contains, or
// else as stated by the sender. It returns 0 if the size is unknown.
func (p Part) Size() int64 {
	if p.Media != nil && len(p.Media.Bytes) > 0 {
		return int64(len(p.Media.Bytes))
	}
	raw, stated := p.Metadata.Get(MetaSize)
	if !stated {
		return 0
	}
	n, err := strconv.ParseInt(string(raw), 10, 64)
	if err != nil {
		return 0
	}
	return max(n, 0)
}

// Modality returns the modality of a MIME type.
func Modality(mime string) string {
	kind, _, _ := strings.Cut(mime, "/")
	switch kind {
	case "image", "audio", "video":
		return kind
	}
	if Textual(mime) || MediaType(mime) == "application/pdf" {
		return "document"
	}
	return "binary"
}

// Textual reports whether data of the MIME type is text.
func Textual(mime string) bool {
	mime = MediaType(mime)
	switch mime {
	case "application/json", "application/xml", "application/yaml", "application/x-yaml", "application/toml", "application/javascript",
		"application/ecmascript", "application/x-ndjson", "application/sql", "application/x-sh":
		return true
	}
	return strings.HasPrefix(mime, "text/") || strings.HasSuffix(mime, "+json") || strings.HasSuffix(mime, "+xml")
}

// MediaType returns the lowercase MIME type without its parameters.
func MediaType(mime string) string {
	mime, _, _ = strings.Cut(strings.ToLower(mime), ";")
	return strings.TrimSpace(mime)
}
