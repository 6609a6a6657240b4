package openai

import (
	"cmp"
	"regexp"

	"github.com/turnlog/turnlog/model"
)

// caching is a cache request in OpenAI's terms: the provider caches prefixes on its
// own, and the key finds them.
type caching struct {
	key      string
	extended bool // keep the prefix for a day
	off      bool
}

func cacheOf(r model.Request) caching {
	c := r.Cache
	switch {
	case c == nil || c.Mode == "" && c.Key == "" && c.Retention == "":
		return caching{}
	case c.Mode == "disabled":
		return caching{off: true}
	}
	return caching{key: cmp.Or(c.Key, string(r.Session)), extended: c.Retention == "extended"}
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
