package registry_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/turnlog/turnlog/model/registry"
)

func TestStatusShowsKeysAndAddresses(t *testing.T) {
	t.Parallel()
	type brief struct {
		Ready             bool
		Key, Base, Counts string
		Missing           []string
	}
	for name, tt := range map[string]struct {
		env  env
		want map[string]brief
	}{
		"nothing": {nil, map[string]brief{
			"anthropic": {Missing: []string{"ANTHROPIC_API_KEY"}}, "openai": {Missing: []string{"OPENAI_API_KEY"}},
			"gemini": {Missing: []string{"GEMINI_API_KEY", "GOOGLE_API_KEY"}}, "demo": {Ready: true},
		}},
		"all": {env{"ANTHROPIC_API_KEY": canary, "OPENAI_API_KEY": canary, "GEMINI_API_KEY": canary, "ANTHROPIC_BASE_URL": "http://me:secret@proxy:8080/a?k=" + canary}, map[string]brief{
			"anthropic": {Ready: true, Key: "ANTHROPIC_API_KEY", Base: "http://proxy:8080/a", Counts: "anthropic:claude-sonnet-5-5"},
			"openai":    {Ready: true, Key: "OPENAI_API_KEY", Counts: "openai:gpt-6.1-sol"},
			"gemini":    {Ready: true, Key: "GEMINI_API_KEY", Counts: "gemini:gemini-flash-latest"},
		}},
		"a compatible server": {env{"OPENAI_BASE_URL": "http://127.0.0.1:11434/v1", "GOOGLE_API_KEY": canary}, map[string]brief{
			"openai": {Ready: true, Base: "http://127.0.0.1:11434/v1"},
			"gemini": {Ready: true, Key: "GOOGLE_API_KEY", Counts: "gemini:gemini-flash-latest"},
		}},
		"no address": {env{"OPENAI_BASE_URL": "http://[", "OPENAI_API_KEY": canary}, map[string]brief{
			"openai": {Ready: true, Key: "OPENAI_API_KEY", Base: "(not a URL)"},
		}},
	} {
		all := registry.New(tt.env.get).Status()
		for _, s := range all {
			want, ok := tt.want[s.Provider]
			if diff := cmp.Diff(want, brief{s.Ready, s.Key, s.BaseURL, s.Default, s.Missing}); ok && diff != "" {
				t.Errorf("%s: %s: -want +got\n%s", name, s.Provider, diff)
			}
		}
		raw, err := json.Marshal(all)
		if err != nil || strings.Contains(string(raw), canary) || strings.Contains(string(raw), "secret") {
			t.Errorf("%s: %v %s", name, err, raw)
		}
	}
}

func TestDefaultIsThatOfTheFirstKey(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		env            env
		model, because string
	}{
		"nothing":             {nil, "", ""},
		"all":                 {keys(), "anthropic:claude-sonnet-5-5", "ANTHROPIC_API_KEY"},
		"openai":              {env{"OPENAI_API_KEY": "k", "GEMINI_API_KEY": "k"}, "openai:gpt-6.1-sol", "OPENAI_API_KEY"},
		"a compatible server": {env{"OPENAI_API_KEY": "k", "OPENAI_BASE_URL": "http://127.0.0.1:1/v1", "GOOGLE_API_KEY": "k"}, "gemini:gemini-flash-latest", "GOOGLE_API_KEY"},
		"named":               {env{"TURNLOG_MODEL": "openai:llama", "ANTHROPIC_API_KEY": "k"}, "openai:llama", "TURNLOG_MODEL"},
	} {
		if model, because := registry.New(tt.env.get).Default(); model != tt.model || because != tt.because {
			t.Errorf("%s: %q because of %q, want %q because of %q", name, model, because, tt.model, tt.because)
		}
	}
}
