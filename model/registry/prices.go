package registry

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"

	"github.com/goccy/go-yaml"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/internal/textfile"
	"github.com/turnlog/turnlog/internal/yamltext"
	"github.com/turnlog/turnlog/model"
)

// PricesVariable is the environment variable for the name of a file with prices.
const PricesVariable = "TURNLOG_PRICES"

const maxPrices = 256 << 10 // bytes of the file

// Prices are what models cost. Providers report tokens, but few of them report costs.
type Prices struct {
	Currency string           `yaml:"currency"`
	Models   map[string]Price `yaml:"models"` // by pattern of provider:model; * matches any characters
}

// Price is the price of a million tokens.
type Price struct {
	Input      float64  `yaml:"input"`
	Output     float64  `yaml:"output"`
	CacheRead  *float64 `yaml:"cache_read"`  // of input tokens; nil: as Input
	CacheWrite *float64 `yaml:"cache_write"` // of input tokens; nil: as Input
}

// Prices returns the prices in the file that [PricesVariable] names, or none if it is not set. It reads
// the file once. Models do not open if the file is invalid, so a long-running program calls Prices when
// it starts.
func (r *Registry) Prices() (Prices, error) { return r.prices() }

func pricesIn(getenv func(string) string) func() (Prices, error) {
	return sync.OnceValues(func() (Prices, error) {
		file := getenv(PricesVariable)
		if file == "" {
			return Prices{}, nil
		}
		data, err := textfile.ReadFile(file, maxPrices)
		if err != nil {
			return Prices{}, fmt.Errorf("%s: %w", PricesVariable, err)
		}
		p, err := parsePrices(data)
		if err != nil {
			return Prices{}, fmt.Errorf("%s: %s: %w", PricesVariable, file, err)
		}
		return p, nil
	})
}

func parsePrices(data []byte) (p Prices, err error) {
	err = yamltext.Decode(data, &p, yaml.Strict())
	switch {
	case err != nil:
		return p, fmt.Errorf("bad prices: %w", err)
	case p.Currency == "":
		return p, errors.New("no currency: write currency: USD")
	case len(p.Models) == 0:
		return p, errors.New("no models: write models: {'openai:gpt-5.5': {input: 1.25, output: 10}}, per million tokens")
	}
	for name, price := range p.Models {
		for _, v := range []float64{price.Input, price.Output, or(price.CacheRead, 0), or(price.CacheWrite, 0)} {
			if v < 0 || v > 1e6 || math.IsNaN(v) {
				return p, fmt.Errorf("%s: a price is from 0 to 1000000 per million tokens, not %v", name, v)
			}
		}
	}
	return p, nil
}

func or(v *float64, otherwise float64) float64 {
	if v == nil {
		return otherwise
	}
	return *v
}

// Of returns the price of a model, provider:model without options. If several patterns match, the longest
// one counts.
func (p Prices) Of(name string) (Price, bool) {
	longest, found := "", false
	for pattern := range p.Models {
		longer := len(pattern) > len(longest) || len(pattern) == len(longest) && pattern > longest
		if content.Matches(pattern, name) && (!found || longer) {
			longest, found = pattern, true
		}
	}
	return p.Models[longest], found
}

// Unpriced returns the models of a name that have no price. Their cost is unknown unless the provider reports
// it. Unpriced returns nil for an invalid name.
func (r *Registry) Unpriced(name string) []string {
	ref, p, err := r.find(name)
	if err != nil {
		return nil
	}
	if p.Name == "fallback" {
		var all []string
		names, err := alternatives(ref)
		if err != nil {
			return nil
		}
		for _, one := range names {
			all = append(all, r.Unpriced(one)...)
		}
		return all
	}
	prices, err := r.prices()
	if _, known := prices.Of(ref.bare()); known || err != nil {
		return nil
	}
	return []string{ref.bare()}
}

// withPrice returns the model with its price, if that is known.
func (s Setup) withPrice(m model.Model) (model.Model, error) {
	prices, err := s.registry.prices()
	if err != nil {
		return nil, err
	}
	if price, known := prices.Of(s.Ref.bare()); known {
		return priced{m, price, prices.Currency}, nil
	}
	return m, nil
}

// priced is a model whose provider reports tokens and no cost.
type priced struct {
	model.Model

	price    Price
	currency string
}

// Call adds the cost of what the provider bills, even for a failed attempt.
func (m priced) Call(ctx context.Context, r model.Request, emit func(content.Delta)) (model.Reply, error) {
	reply, err := m.Model.Call(ctx, r, emit)
	m.charge(&reply.Usage)
	if failed, ok := errors.AsType[*model.Error](err); ok {
		m.charge(&failed.Usage)
	}
	return reply, err
}

func (m priced) charge(u *content.Usage) {
	if u.CostMicros != 0 || u.TotalTokens() == 0 {
		return
	}
	fresh := max(u.InputTokens-u.CacheReadTokens-u.CacheWriteTokens, 0)
	cost := float64(fresh)*m.price.Input + float64(u.CacheReadTokens)*or(m.price.CacheRead, m.price.Input) +
		float64(u.CacheWriteTokens)*or(m.price.CacheWrite, m.price.Input) + float64(u.OutputTokens)*m.price.Output
	u.CostMicros, u.Currency = int64(math.Ceil(cost)), m.currency
}
