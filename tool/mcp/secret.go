package mcp

import (
	"fmt"
	"io"
	"os"
	"strings"
)

// How references begin.
const (
	refEnv  = "env:"
	refFile = "file:"
)

// maxSecret is how many bytes of a file are a secret.
const maxSecret = 64 << 10

// IsReference reports whether a value stands for a secret, as env:NAME or file:PATH.
func IsReference(value string) bool {
	return strings.HasPrefix(value, refEnv) && value != refEnv || strings.HasPrefix(value, refFile) && value != refFile
}

// lookUp returns what a value stands for: the variable or the file that it refers to,
// or itself. Errors name the reference, never what it holds.
func lookUp(value string, getenv func(string) string) (string, error) {
	if name, ok := strings.CutPrefix(value, refEnv); ok {
		secret := getenv(name)
		if secret == "" {
			return "", fmt.Errorf("the environment has no %s", name)
		}
		return secret, nil
	}
	path, ok := strings.CutPrefix(value, refFile)
	if !ok {
		return value, nil
	}
	f, err := os.Open(path)
	if err != nil {
		return "", fmt.Errorf("secret: %w", err)
	}
	defer func() { _ = f.Close() }()
	raw, err := io.ReadAll(io.LimitReader(f, maxSecret))
	if err != nil {
		return "", fmt.Errorf("secret: %w", err)
	}
	secret := strings.TrimSpace(string(raw))
	if secret == "" {
		return "", fmt.Errorf("secret: %s is empty", path)
	}
	return secret, nil
}
