package agentfile

import (
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"path"
	"regexp"
	"strings"
	"time"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/policy/permission"
	"github.com/turnlog/turnlog/tool"
)

// formats are the checks that schema.json names as formats. Their errors quote the text,
// unless it may be a secret.
func formats() map[string]func(text string) error {
	return map[string]func(string) error{
		"name":             checkName,
		"go-duration":      checkDuration,
		"route":            checkRoute,
		"re2":              checkExpression,
		"request-kind":     permission.CheckKind,
		"http-url":         checkURL,
		"folder-below":     checkFolder,
		"secret-reference": checkReference,
		"shell":            checkCommand,
	}
}

func checkName(s string) error {
	if !regexp.MustCompile(`^[a-z0-9][a-z0-9_-]{0,63}$`).MatchString(s) {
		return fmt.Errorf("%q: use 1 to 64 of a-z, 0-9, - and _, a letter or digit first", s)
	}
	return nil
}

func checkDuration(s string) error {
	d, err := time.ParseDuration(s)
	switch {
	case err == nil && d > 0:
		return nil
	case regexp.MustCompile(`^[0-9]+$`).MatchString(s):
		return fmt.Errorf("%q: add the unit: write %ss for seconds", s, s)
	}
	return fmt.Errorf("%q: use a positive duration like 90s or 24h; the units are ms, s, m and h", s)
}

// span returns the duration of a validated text; "" is zero.
func span(s string) time.Duration {
	d, _ := time.ParseDuration(s) // checkDuration parsed it
	return d
}

func checkRoute(s string) error {
	if _, _, err := content.ParseRoute(s); err != nil {
		return fmt.Errorf("%q: %w", s, err)
	}
	return nil
}

func checkURL(s string) error {
	u, err := url.Parse(s)
	if err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") {
		return errors.New("use a URL that begins with http:// or https://")
	}
	return nil
}

func checkExpression(s string) error {
	if _, err := regexp.Compile(s); err != nil {
		return fmt.Errorf("not a regular expression: %w", err)
	}
	return nil
}

// checkFolder accepts relative paths that stay in the folder in which they start.
func checkFolder(s string) error {
	if s == "" || !fs.ValidPath(path.Clean(strings.ReplaceAll(s, `\`, "/"))) {
		return fmt.Errorf("%q: use a relative path to a folder inside the agent's folder", s)
	}
	return nil
}

func checkReference(s string) error {
	if !tool.IsReference(s) {
		return errors.New("write env:NAME or file:PATH, never the secret itself")
	}
	return nil
}

func checkCommand(s string) error {
	if strings.TrimSpace(s) == "" {
		return errors.New("is empty")
	}
	return nil
}
