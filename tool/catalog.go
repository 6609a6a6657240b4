package tool

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/gowebpki/jcs"
)

// Offer is one tool of a [Catalog] and where it comes from.
type Offer struct {
	Source string
	Tool   Tool
	Spec   Spec
	Digest string // of the spec
}

// Catalog is what a set of sources offers at one moment. The offers that a model sees are the ones
// that its calls reach.
type Catalog struct {
	Offers []Offer // sorted by name, without duplicates
	Digest string  // equal if names, sources and specs are equal
}

// Sample lists the tools of every source. If several offer a tool of the same name, policy decides
// which offer counts. Sample returns an error if a source fails or offers an invalid name.
func Sample(ctx context.Context, sources []Source, policy Collision) (Catalog, error) {
	var all []Offer
	for _, s := range sources {
		tools, err := s.Tools(ctx)
		if err != nil {
			return Catalog{}, fmt.Errorf("tools of source %s: %w", s.Name(), err)
		}
		all = slices.Grow(all, len(tools))
		for _, t := range tools {
			o := offer(s.Name(), t)
			if err := checkName(o.Spec.Name); err != nil {
				return Catalog{}, fmt.Errorf("tools of source %s: %w", s.Name(), err)
			}
			all = append(all, o)
		}
	}
	all, err := settle(all, policy)
	if err != nil {
		return Catalog{}, err
	}
	return Catalog{Offers: all, Digest: digestOffers(all)}, nil
}

// settle sorts offers by name and keeps one per name.
func settle(all []Offer, policy Collision) ([]Offer, error) {
	if policy == LastWins {
		slices.Reverse(all)
	}
	slices.SortStableFunc(all, func(a, b Offer) int { return strings.Compare(a.Spec.Name, b.Spec.Name) })
	for i := 1; i < len(all) && policy == ErrorOnCollision; i++ {
		if a, b := all[i-1], all[i]; a.Spec.Name == b.Spec.Name {
			return nil, &CollisionError{Tool: a.Spec.Name, First: a.Source, Second: b.Source}
		}
	}
	return slices.CompactFunc(all, func(a, b Offer) bool { return a.Spec.Name == b.Spec.Name }), nil
}

func offer(source string, t Tool) Offer {
	o := Offer{Source: source, Tool: t, Spec: t.Spec()}
	if c, ok := t.(*compiled); ok {
		o.Digest = c.digest
	} else {
		o.Digest = SpecDigest(o.Spec)
	}
	return o
}

// Lookup returns the offer that a call of that name reaches.
func (c Catalog) Lookup(name string) (Offer, bool) {
	i, found := slices.BinarySearchFunc(c.Offers, name, func(o Offer, n string) int { return strings.Compare(o.Spec.Name, n) })
	if !found {
		return Offer{}, false
	}
	return c.Offers[i], true
}

// Specs lists what a model sees, sorted by name.
func (c Catalog) Specs() []Spec {
	specs := make([]Spec, len(c.Offers))
	for i, o := range c.Offers {
		specs[i] = o.Spec
	}
	return specs
}

// digestOffers hashes one line per offer. A source's name is quoted because it could
// contain a line break.
func digestOffers(offers []Offer) string {
	lines := make([]byte, 0, 128*len(offers))
	for _, o := range offers {
		lines = fmt.Appendf(lines, "%s %s %q\n", o.Spec.Name, o.Digest, o.Source)
	}
	return hash(lines)
}

// Canonical returns an input's canonical form (RFC 8785). Inputs that differ only in spacing, field order or number
// format have the same form. Empty input counts as {}. Input without a canonical form is returned unchanged; such
// bytes are never the canonical form of anything else.
func Canonical(input json.RawMessage) json.RawMessage {
	input = orEmpty(input)
	if canonical, err := jcs.Transform(input); err == nil {
		return canonical
	}
	return input
}

// Digest returns the SHA-256 of an input's canonical form, in hex.
func Digest(input json.RawMessage) string { return hash(Canonical(input)) }

// SpecDigest returns the SHA-256 of a spec's canonical JSON, in hex.
func SpecDigest(s Spec) string {
	raw, err := json.Marshal(s)
	if err != nil { // a schema is not JSON
		raw = fmt.Appendf(nil, "%+v", s)
	}
	return Digest(raw)
}

func hash(b []byte) string {
	var text [2 * sha256.Size]byte
	sum := sha256.Sum256(b)
	hex.Encode(text[:], sum[:])
	return string(text[:])
}
