package acp

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/url"
	"path"
	"path/filepath"
	"strings"

	sdk "github.com/coder/acp-go-sdk"

	"github.com/turnlog/turnlog/content"
)

// itemOf returns the input in a prompt. Names of files that the prompt only mentions are relative to the folder, as
// tools expect them.
func itemOf(blocks []sdk.ContentBlock, folder string) (content.Item, error) {
	it := content.NewItem(content.User)
	for i, b := range blocks {
		p, err := partOf(b, folder)
		if err != nil {
			return it, &sdk.RequestError{Code: codeParams, Message: fmt.Sprintf("prompt[%d]: %v", i, err)}
		}
		it.Parts = append(it.Parts, p)
	}
	if strings.TrimSpace(it.Text()) == "" && len(it.Parts) == len(texts(it)) {
		return it, &sdk.RequestError{Code: codeParams, Message: "the prompt is empty: send text, files or both"}
	}
	return it, nil
}

func texts(it content.Item) (all []content.Part) {
	for _, p := range it.Parts {
		if p.Kind == content.TextKind {
			all = append(all, p)
		}
	}
	return all
}

func partOf(b sdk.ContentBlock, folder string) (content.Part, error) {
	switch {
	case b.Text != nil:
		return content.TextPart(b.Text.Text), nil
	case b.Image != nil:
		uri := ""
		if b.Image.Uri != nil {
			uri = *b.Image.Uri
		}
		return filePart(cmp.Or(nameOf(uri, folder), "image"), b.Image.MimeType, b.Image.Data)
	case b.Audio != nil:
		return filePart("audio", b.Audio.MimeType, b.Audio.Data)
	case b.ResourceLink != nil:
		return content.TextPart("[" + b.ResourceLink.Name + "](" + nameOf(b.ResourceLink.Uri, folder) + ")"), nil
	case b.Resource != nil && b.Resource.Resource.TextResourceContents != nil:
		r := b.Resource.Resource.TextResourceContents
		return content.FilePart(nameOf(r.Uri, folder), mimeOr(r.MimeType, "text/plain"), []byte(r.Text)), nil
	case b.Resource != nil && b.Resource.Resource.BlobResourceContents != nil:
		r := b.Resource.Resource.BlobResourceContents
		return filePart(nameOf(r.Uri, folder), mimeOr(r.MimeType, "application/octet-stream"), r.Blob)
	}
	return content.Part{}, errors.New("unknown type: use text, image, audio, resource_link or resource")
}

func mimeOr(mime *string, usual string) string {
	if mime == nil || *mime == "" {
		return usual
	}
	return *mime
}

func filePart(name, mime, data string) (content.Part, error) {
	raw, err := base64.StdEncoding.DecodeString(data)
	if err != nil {
		return content.Part{}, fmt.Errorf("the data of %s is not base64: %w", name, err)
	}
	return content.FilePart(name, mime, raw), nil
}

// nameOf returns the name of a file in the folder, or else the address.
func nameOf(uri, folder string) string {
	u, err := url.Parse(uri)
	if err != nil || u.Scheme != "file" {
		return uri
	}
	name, err := filepath.Rel(folder, filepath.FromSlash(u.Path))
	if err != nil || !filepath.IsLocal(name) {
		return u.Path
	}
	if name = filepath.ToSlash(name); u.Fragment != "" {
		name += "#" + u.Fragment
	}
	return name
}

// maxInline bounds the bytes of files within an input. A sealed session cannot refer to stored files.
const maxInline = 48 << 10

// stored returns the item with its large files stored in the deployment.
func (t *thread) stored(ctx context.Context, it content.Item) (content.Item, error) {
	size := 0
	for _, p := range it.Parts {
		if p.Media != nil {
			size += len(p.Media.Bytes)
		}
	}
	if size <= maxInline {
		return it, nil
	}
	if sealed, err := t.client.IsSealed(ctx, t.id); err != nil || sealed {
		return it, err
	}
	for i, p := range it.Parts {
		if p.Media == nil || len(p.Media.Bytes) == 0 {
			continue
		}
		stored, err := t.client.StoreFile(ctx, path.Base(p.Name), p.Media.MIME, bytes.NewReader(p.Media.Bytes))
		if err != nil {
			return it, err
		}
		stored.Name = p.Name
		it.Parts[i] = stored
	}
	return it, nil
}
