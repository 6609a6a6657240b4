package webhooks

import (
	"cmp"
	"encoding/base64"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/internal/egress"
	"github.com/turnlog/turnlog/internal/textfile"
	"github.com/turnlog/turnlog/internal/yamltext"
)

// Endpoint is a receiver of webhooks.
type Endpoint struct {
	Name     string   // identifies the endpoint's stored position
	URL      string   // where messages are posted
	Types    []Type   // types of messages that it gets; none: all
	Agents   []string // patterns of the agents whose sessions it gets; none: all sessions
	Sessions []string // patterns of the sessions that it gets; none: all
	Details  bool     // messages include content: arguments of calls, and texts of questions and errors

	Private []netip.Prefix // addresses that may be dialed although they are not public

	// Secrets returns the keys that sign messages. It is called for each attempt, so keys can be replaced
	// without a restart.
	Secrets func() ([][]byte, error)
}

// entry is an endpoint as it is written in a file.
type entry struct {
	Name       string   `yaml:"name"`
	URL        string   `yaml:"url"`
	SecretFile string   `yaml:"secret_file"`
	SecretEnv  string   `yaml:"secret_env"`
	Events     []Type   `yaml:"events"`
	Agents     []string `yaml:"agents"`
	Sessions   []string `yaml:"sessions"`
	Details    bool     `yaml:"details"`
	Private    []string `yaml:"private"`
}

// Parse reads a file of endpoints. Their secrets are in other files, or in environment variables.
func Parse(text []byte, getenv func(string) string) ([]Endpoint, error) {
	var file struct {
		Endpoints []entry `yaml:"endpoints"`
	}
	if err := yamltext.Decode(text, &file, yaml.Strict()); err != nil {
		return nil, fmt.Errorf("endpoints: %w", err)
	}
	if len(file.Endpoints) == 0 {
		return nil, errors.New("endpoints: the list is empty: give each endpoint a name, a url, and a secret_file or a secret_env")
	}
	var out []Endpoint
	for i, e := range file.Endpoints {
		end, err := e.endpoint(getenv)
		if err == nil && slices.ContainsFunc(out, func(other Endpoint) bool { return other.Name == end.Name }) {
			err = errors.New("another endpoint has this name")
		}
		if err != nil {
			return nil, fmt.Errorf("endpoint %s: %w", cmp.Or(e.Name, strconv.Itoa(i+1)), err)
		}
		out = append(out, end)
	}
	return out, nil
}

func (e entry) endpoint(getenv func(string) string) (Endpoint, error) {
	out := Endpoint{Name: e.Name, URL: e.URL, Types: e.Events, Agents: e.Agents, Sessions: e.Sessions, Details: e.Details}
	if !content.IsToken(e.Name) {
		return out, fmt.Errorf("name %q: use 1 to 128 letters, digits, '-' or '_'", e.Name)
	}
	for _, text := range e.Private {
		p, err := egress.ParsePrefix(text)
		if err != nil {
			return out, fmt.Errorf("private: %w", err)
		}
		out.Private = append(out.Private, p)
	}
	for _, t := range e.Events {
		if !slices.Contains(Types(), t) {
			return out, fmt.Errorf("event %q: use %s", t, strings.Trim(fmt.Sprint(Types()), "[]"))
		}
	}
	u, err := url.Parse(e.URL)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http":
		return out, errors.New("url: write it like https://example.com/hooks")
	case u.User != nil:
		return out, errors.New("url: remove the password: messages are signed")
	case u.Scheme == "http" && len(out.Private) == 0:
		return out, errors.New("url: use https; http is for addresses that \"private\" allows")
	case (e.SecretFile == "") == (e.SecretEnv == ""):
		return out, errors.New("give one of secret_file and secret_env")
	}
	out.Secrets = func() ([][]byte, error) { return e.secrets(getenv) }
	_, err = out.Secrets()
	return out, err
}

// secrets reads the endpoint's secrets.
func (e entry) secrets(getenv func(string) string) ([][]byte, error) {
	from, text := "secret_env "+e.SecretEnv, getenv(e.SecretEnv)
	if e.SecretFile != "" {
		from = "secret_file"
		raw, err := textfile.ReadFile(e.SecretFile, maxSecrets)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", from, err)
		}
		text = string(raw)
	}
	keys, err := ParseSecrets(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", from, err)
	}
	return keys, nil
}

const (
	secretPrefix = "whsec_"
	maxSecrets   = 4 << 10 // bytes of a file
)

// ParseSecrets reads the secrets of an endpoint, separated by spaces or lines. If there are several, each
// message has a signature for each, so that its receiver can change from one to the next.
func ParseSecrets(text string) (out [][]byte, err error) {
	for word := range strings.FieldsSeq(text) {
		encoded, ok := strings.CutPrefix(word, secretPrefix)
		key, err := base64.StdEncoding.DecodeString(encoded)
		if !ok || err != nil || len(key) < 24 || len(key) > 64 {
			return nil, fmt.Errorf("secret %d: write whsec_ and 24 to 64 random bytes in base64", len(out)+1)
		}
		out = append(out, key)
	}
	if len(out) == 0 {
		return nil, errors.New("the secret is missing: write whsec_ and 24 to 64 random bytes in base64")
	}
	return out, nil
}
