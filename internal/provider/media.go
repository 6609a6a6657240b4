package provider

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/turnlog/turnlog/content"
)

// Placeholder returns the text that replaces media that the model does not accept. A part that makes
// every request fail would end the session.
func Placeholder(p content.Part) string {
	what := cmp.Or(p.Media.MIME, p.Media.Modality, "data")
	if p.Name != "" {
		what = p.Name + ", " + what
	}
	switch uri := p.Media.URI; {
	case uri != "" && !strings.HasPrefix(uri, "data:"):
		what += " at " + uri
	case len(p.Media.Bytes) > 0:
		what += fmt.Sprintf(", %d bytes", len(p.Media.Bytes))
	}
	return "[" + what + ", which cannot be shown here]"
}
