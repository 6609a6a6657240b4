package natscli

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// settings are what a context file of the nats command holds, in its spelling,
// as far as it bears on the connection.
type settings struct {
	name string // of the context, or ""

	URL         string `json:"url"`
	Creds       string `json:"creds"`
	User        string `json:"user"`
	Password    string `json:"password"`
	Token       string `json:"token"`
	NKey        string `json:"nkey"`
	Cert        string `json:"cert"`
	Key         string `json:"key"`
	CA          string `json:"ca"`
	TLSFirst    bool   `json:"tls_first"`
	InboxPrefix string `json:"inbox_prefix"`
}

// beyond are the settings that change where or how to connect and that we cannot
// follow.
type beyond struct {
	NSC         string `json:"nsc"`
	SocksProxy  string `json:"socks_proxy"`
	JSDomain    string `json:"jetstream_domain"`
	JSAPIPrefix string `json:"jetstream_api_prefix"`
	UserJWT     string `json:"user_jwt"`
	WinStore    string `json:"windows_cert_store"`
}

// load reads the context of that name.
func (f *Flags) load(name string) (settings, error) {
	dir := f.dir()
	if dir == "" {
		return settings{}, fmt.Errorf("context %q: contexts lie in the home directory, and HOME is not set", name)
	}
	if name != filepath.Base(name) || strings.Contains(name, "..") {
		return settings{}, fmt.Errorf("context %q is not a name: %s", name, known(dir))
	}
	b, err := os.ReadFile(filepath.Join(dir, "context", name+".json"))
	if errors.Is(err, fs.ErrNotExist) {
		return settings{}, fmt.Errorf("context %q is unknown: %s", name, known(dir))
	}
	if err != nil {
		return settings{}, fmt.Errorf("context %q: %w", name, err)
	}
	s, err := f.parse(b)
	if err != nil {
		return settings{}, fmt.Errorf("context %q: %w", name, err)
	}
	s.name = name
	return s, nil
}

func (f *Flags) parse(b []byte) (settings, error) {
	var s settings
	var x beyond
	if err := errors.Join(json.Unmarshal(b, &s), json.Unmarshal(b, &x)); err != nil {
		return settings{}, malformed(err)
	}
	if err := x.check(); err != nil {
		return settings{}, err
	}
	for _, p := range []*string{&s.Creds, &s.NKey, &s.Cert, &s.Key, &s.CA} {
		*p = f.expand(*p)
	}
	return s, s.checkReferences()
}

// malformed says where a context file is wrong. The decoder's own words would
// quote what it read, which may be a password.
func malformed(err error) error {
	where := ""
	if t, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		where = ": " + t.Field + " is not a " + t.Type.String()
	} else if s, ok := errors.AsType[*json.SyntaxError](err); ok {
		where = fmt.Sprintf(": byte %d", s.Offset)
	}
	return fmt.Errorf("the file is no valid context%s: mend it with \"nats context edit\"", where)
}

func (x beyond) check() error {
	for _, c := range []struct{ key, value string }{
		{"nsc", x.NSC},
		{"socks_proxy", x.SocksProxy},
		{"jetstream_domain", x.JSDomain},
		{"jetstream_api_prefix", x.JSAPIPrefix},
		{"user_jwt", x.UserJWT},
		{"windows_cert_store", x.WinStore},
	} {
		if c.value != "" {
			return fmt.Errorf("it sets %s, which is not supported here: use another context, or --server and --creds", c.key)
		}
	}
	return nil
}

// checkReferences refuses secrets that only point to where the secret is.
func (s *settings) checkReferences() error {
	for _, c := range []struct{ key, value string }{
		{"creds", s.Creds}, {"nkey", s.NKey}, {"password", s.Password}, {"token", s.Token},
	} {
		scheme, _, ok := strings.Cut(c.value, ":")
		if ok && slices.Contains([]string{"op", "nsc", "env", "file", "data"}, scheme) {
			return fmt.Errorf("its %s is only a reference (%s:), which is not supported here: give it as a flag", c.key, scheme)
		}
	}
	return nil
}

// expand resolves a leading ~ and variables, as the nats command does in paths.
func (f *Flags) expand(path string) string {
	path = strings.TrimPrefix(path, "file://")
	if rest, ok := strings.CutPrefix(path, "~"); ok {
		path = f.home() + rest
	}
	return os.Expand(path, f.getenv)
}

// selected returns the name of the context that is selected in the nats command,
// or "".
func (f *Flags) selected() string {
	dir := f.dir()
	if dir == "" {
		return ""
	}
	b, err := os.ReadFile(filepath.Join(dir, "context.txt"))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

// known lists the contexts that exist, for who got a name wrong.
func known(dir string) string {
	files, _ := filepath.Glob(filepath.Join(dir, "context", "*.json"))
	if len(files) == 0 {
		return "there are none in " + filepath.Join(dir, "context") + ": give --server, or add one with \"nats context add\""
	}
	names := make([]string, len(files))
	for i, file := range files {
		names[i] = strings.TrimSuffix(filepath.Base(file), ".json")
	}
	return "known are " + strings.Join(names, ", ")
}

// dir is where the nats command keeps its contexts, or "".
func (f *Flags) dir() string {
	if f.getenv == nil {
		return ""
	}
	if xdg := f.getenv("XDG_CONFIG_HOME"); xdg != "" {
		return filepath.Join(xdg, "nats")
	}
	if home := f.home(); home != "" {
		return filepath.Join(home, ".config", "nats")
	}
	return ""
}

func (f *Flags) home() string {
	return cmp.Or(f.getenv("HOME"), f.getenv("USERPROFILE"))
}
