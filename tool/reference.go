package tool

import (
	"fmt"
	"strings"

	"github.com/turnlog/turnlog/internal/textfile"
)

// Prefixes of references.
const (
	refEnv  = "env:"
	refFile = "file:"
)

// maxSecret is the size limit of a secret in a file.
const maxSecret = 64 << 10

// IsReference reports whether a value refers to a secret, as env:NAME or file:PATH.
func IsReference(value string) bool {
	return strings.HasPrefix(value, refEnv) && value != refEnv || strings.HasPrefix(value, refFile) && value != refFile
}

// ResolveReference returns the secret to which a value refers, or the value itself. Errors contain
// the reference, never the secret.
func ResolveReference(value string, getenv func(string) string) (string, error) {
	if name, ok := strings.CutPrefix(value, refEnv); ok {
		secret := getenv(name)
		if secret == "" {
			return "", fmt.Errorf("environment variable %s is not set", name)
		}
		return secret, nil
	}
	path, ok := strings.CutPrefix(value, refFile)
	if !ok {
		return value, nil
	}
	raw, err := textfile.ReadFile(path, maxSecret)
	if err != nil {
		return "", fmt.Errorf("secret: %w", err)
	}
	secret := strings.TrimSpace(string(raw))
	if secret == "" {
		return "", fmt.Errorf("secret: %s is empty", path)
	}
	return secret, nil
}
