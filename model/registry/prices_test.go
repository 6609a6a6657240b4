package registry_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/model/fallback"
	"github.com/turnlog/turnlog/model/modeltest"
	"github.com/turnlog/turnlog/model/registry"
)

const prices = `
currency: EUR
models:
  "openai:*": {input: 100, output: 100}
  openai:small: {input: 1.5, output: 10, cache_read: 0.5}
  "openai:sm*": {input: 100, output: 100}
`

// pricesFile is a file with a text.
func pricesFile(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "prices.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestCallsCostWhatTheirTokensCost(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		model, usage string
		cost         int64
		currency     string
	}{
		"cached tokens have a price": {"openai:small?temperature=0", `{"prompt_tokens":1000,"completion_tokens":101,"prompt_tokens_details":{"cached_tokens":800}}`, 1710, "EUR"},
		"the longest pattern counts": {"openai:smart", `{"prompt_tokens":1,"completion_tokens":1}`, 200, "EUR"},
		"nothing was used":           {"openai:small", `{}`, 0, ""},
	} {
		s := modeltest.ServeOne(t, modeltest.Answer{
			Body: `data: {"choices":[{"delta":{"content":"hi"},"finish_reason":"stop"}],"usage":` + tt.usage + "}\n\ndata: [DONE]\n\n",
		})
		r := registry.New(env{registry.PricesVariable: pricesFile(t, prices), "OPENAI_BASE_URL": s.URL}.get)
		reply, err := open(t, r.OpenShared, tt.model, nil).Call(t.Context(), modeltest.Ask("hi"), func(content.Delta) {})
		if u := reply.Usage; err != nil || u.CostMicros != tt.cost || u.Currency != tt.currency {
			t.Errorf("%s: %+v, %v; want %d %s", name, u, err, tt.cost, tt.currency)
		}
	}
}

func TestModelsWithoutAPriceAreNamed(t *testing.T) {
	t.Parallel()
	r := registry.New(env{registry.PricesVariable: pricesFile(t, prices)}.get)
	got := r.Unpriced(fallback.Name("openai:small?temperature=0", "anthropic:claude-x?max_tokens=1", "demo"))
	if want := []string{"anthropic:claude-x", "demo"}; !slices.Equal(got, want) {
		t.Errorf("Unpriced = %q, want %q", got, want)
	}
}

func TestWrongPricesAreRefused(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"currency: EUR":                                    "no models",
		"models: {demo: {input: 1}}":                       "no currency",
		"currency: EUR\nmodel: {demo: 1}":                  `unknown field "model"`,
		"currency: EUR\nmodels: {'openai:x': {input: -1}}": "openai:x: a price is from 0",
		"currency: EUR\nmodels: {'openai:x': {out: 1}}":    `unknown field "out"`,
	} {
		r := registry.New(env{registry.PricesVariable: pricesFile(t, text), "OPENAI_API_KEY": canary}.get)
		if _, err := r.Open("openai:x", nil); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), registry.PricesVariable) {
			t.Errorf("%q: Open = %v, want %q", text, err, want)
		}
	}
	if _, err := registry.New(env{registry.PricesVariable: "/absent"}.get).Prices(); err == nil {
		t.Error("a missing file is no error")
	}
}
