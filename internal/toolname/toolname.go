// Package toolname makes names for models from the names that servers give their tools.
package toolname

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"regexp"
)

const (
	maxName = 64 // what providers accept
	digits  = 8  // of the hash that makes names unique
)

// All returns the names that models see for the tools of a server, in order, each with the prefix. It keeps
// valid names. If two names would be equal, or one is too long, the changed ones end in a
// hash of the original, so a name does not depend on the order or on other tools. The
// first own names are the server's tools and keep theirs; the others are changed.
func All(prefix string, names []string, own int) []string {
	out := make([]string, len(names))
	exact := make(map[string]bool)
	wanted := make(map[string]int)
	for i, name := range names {
		plain := prefix + sanitized(name)
		wanted[plain]++
		if i < own && plain == prefix+name && len(plain) <= maxName {
			exact[plain] = true
		}
		out[i] = plain
	}
	for i, plain := range out {
		changed := i >= own || plain != prefix+names[i]
		if len(plain) > maxName || changed && (exact[plain] || wanted[plain] > 1) {
			sum := sha256.Sum256([]byte(names[i]))
			hash := hex.EncodeToString(sum[:])[:digits]
			out[i] = plain[:min(len(plain), maxName-digits-1)] + "_" + hash
		}
	}
	return out
}

// sanitized replaces the characters that some provider does not accept in a name.
func sanitized(name string) string {
	return regexp.MustCompile(`[^A-Za-z0-9_-]`).ReplaceAllLiteralString(cmp.Or(name, "_"), "_")
}
