package wire_test

import (
	"testing"

	"github.com/turnlog/turnlog/internal/wire"
)

func TestExtendsAllowsOnlyMoreFields(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		a, b string
		want bool
	}{
		"equal":                        {"\x81\xa1a\x01", "\x81\xa1a\x01", false},
		"a field more at the end":      {"\x82\xa1a\x01\xa1b\x02", "\x81\xa1a\x01", true},
		"a field more at the start":    {"\x82\xa1b\x02\xa1a\x01", "\x81\xa1a\x01", true},
		"a map more in a field":        {"\x82\xa1a\x01\xa1b\x81\xa1c\x92\x01\x02", "\x81\xa1a\x01", true},
		"a field more inside":          {"\x91\x81\xa1a\x81\xa1b\x02", "\x91\x81\xa1a\x80", true},
		"a field less":                 {"\x81\xa1a\x01", "\x82\xa1a\x01\xa1b\x02", false},
		"a field twice":                {"\x82\xa1a\x01\xa1a\x02", "\x81\xa1a\x01", false},
		"a field twice, the last real": {"\x82\xa1a\x02\xa1a\x01", "\x81\xa1a\x01", false},
		"another value":                {"\x82\xa1a\x03\xa1b\x02", "\x81\xa1a\x01", false},
		"an element more":              {"\x92\x01\x02", "\x91\x01", false},
		"a longer form of a number":    {"\x82\xa1a\xcc\x01\xa1b\x02", "\x81\xa1a\x01", false},
		"a longer form of a map":       {"\xde\x00\x02\xa1a\x01\xa1b\x02", "\x81\xa1a\x01", false},
		"another order":                {"\x83\xa1b\x02\xa1a\x01\xa1c\x03", "\x82\xa1a\x01\xa1b\x02", false},
		"cut off":                      {"\x82\xa1a\x01\xa1b", "\x81\xa1a\x01", false},
	} {
		if got := wire.Extends([]byte(tt.a), []byte(tt.b)); got != tt.want {
			t.Errorf("%s: %t, want %t", name, got, tt.want)
		}
	}
}
