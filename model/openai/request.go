package openai

import (
	"cmp"
	"encoding/json"
	"regexp"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/internal/provider"
	"github.com/turnlog/turnlog/model"
	"github.com/turnlog/turnlog/tool"
)

type object = provider.Object

// request returns the fields that requests of both APIs share.
func (m *Model) request(r model.Request) object {
	o := object{"model": m.cfg.Model, "stream": true}
	o.Opt("temperature", m.cfg.Temperature)
	o.Opt("tools", m.functions(r.Tools))
	if m.caches() {
		o["store"] = false
		m.cache(o, r)
	}
	return o
}

func (m *Model) functions(specs []tool.Spec) []object {
	var all []object
	for _, s := range specs {
		f := object{"name": s.Name, "parameters": fields(s.InputSchema)}
		f.Opt("description", s.Description)
		if m.cfg.API == Responses {
			f["type"], f["strict"] = "function", strict(s.InputSchema) // the default is true
			all = append(all, f)
			continue
		}
		f.Opt("strict", m.own && strict(s.InputSchema)) // the default is false, and not all servers know the field
		all = append(all, object{"type": "function", "function": f})
	}
	return all
}

// answerFormat describes the answer. The APIs require a name.
func answerFormat(schema json.RawMessage) object {
	return object{"name": "answer", "schema": fields(schema), "strict": strict(schema)}
}

// cache adds a cache request in OpenAI's terms, if there is anything to ask for. The
// provider caches prefixes on its own; the key finds them.
func (m *Model) cache(o object, r model.Request) {
	c := r.Cache
	switch {
	case c == nil || c.Mode == "" && c.Key == "" && c.Retention == "":
		return
	case c.Mode == "disabled":
		if optsOutOfCache(m.cfg.Model) {
			o["prompt_cache_options"] = object{"mode": "explicit"} // without breakpoints, nothing is cached
		}
		return
	case c.Retention == "extended":
		o["prompt_cache_retention"] = "24h"
	}
	o["prompt_cache_key"] = cmp.Or(c.Key, string(r.Session))
}

// optsOutOfCache reports whether requests to a model can turn the cache off. Models since gpt-5.6
// support that.
func optsOutOfCache(name string) bool {
	m := regexp.MustCompile(`^gpt-(\d+)(?:\.(\d+))?`).FindStringSubmatch(bare(name))
	if m == nil {
		return false
	}
	major, minor := m[1], cmp.Or(m[2], "0")
	return len(major) > 1 || major > "5" || major == "5" && (len(minor) > 1 || minor >= "6")
}

func argumentsOf(c content.ToolCall) string { return cmp.Or(string(c.Input), "{}") }
