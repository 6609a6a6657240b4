package openai

import (
	"cmp"
	"regexp"

	"github.com/openai/openai-go/v3/packages/param"

	"github.com/turnlog/turnlog/model"
)

// cache returns a cache request in OpenAI's terms, empty if there is nothing to ask for.
// The provider caches prefixes on its own; the key finds them.
func (m *Model) cache(r model.Request) (key param.Opt[string], retention, mode string) {
	c := r.Cache
	switch {
	case c == nil || c.Mode == "" && c.Key == "" && c.Retention == "":
		return key, "", ""
	case c.Mode == "disabled":
		if optsOutOfCache(m.cfg.Model) {
			mode = "explicit" // without breakpoints, nothing is cached
		}
		return key, "", mode
	case c.Retention == "extended":
		retention = "24h"
	}
	return param.NewOpt(cmp.Or(c.Key, string(r.Session))), retention, ""
}

// optsOutOfCache reports whether requests to a model can turn the cache off, as
// those since gpt-5.6 can.
func optsOutOfCache(name string) bool {
	m := regexp.MustCompile(`^gpt-(\d+)(?:\.(\d+))?`).FindStringSubmatch(bare(name))
	if m == nil {
		return false
	}
	major, minor := m[1], cmp.Or(m[2], "0")
	return len(major) > 1 || major > "5" || major == "5" && (len(minor) > 1 || minor >= "6")
}
