package mcp

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

const (
	maxName = 64 // what providers take
	digits  = 8  // of the hash that tells names apart
)

// nameAll gives each tool of a server the name that models see, in the order of names.
// One that fits is kept; where two would be called the same, or a name is too long, those
// that had to be changed end in a hash of their own name, so that no order and no
// neighbour decides which is which. own holds as many names as there are of the server's
// tools; those behind them are ours and give way.
func nameAll(server string, names []string, own int) []string {
	prefix := "mcp_" + server + "_"
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

// sanitized keeps what every provider takes in a name.
func sanitized(name string) string {
	if name == "" {
		return "_"
	}
	return strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '-', r == '_':
			return r
		}
		return '_'
	}, name)
}
