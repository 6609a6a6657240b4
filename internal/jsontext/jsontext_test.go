package jsontext

import (
	"encoding/json"
	"math"
	"testing"
	"time"
)

type inner struct {
	A int    `json:"a"`
	B string `json:"b,omitempty"`
}

type everything struct {
	inner

	Text   string             `json:"text"`
	Plain  float64            `json:",omitempty"`
	Raw    json.RawMessage    `json:"raw,omitempty"`
	Bytes  []byte             `json:"bytes"`
	List   []inner            `json:"list,omitempty"`
	Null   []string           `json:"null"`
	Self   *everything        `json:"self,omitempty"`
	Map    map[string]int     `json:"map,omitempty"`
	At     time.Time          `json:"at"`
	Any    any                `json:"any"`
	Small  int8               `json:"small,omitempty"`
	Big    uint64             `json:"big,omitempty"`
	Yes    bool               `json:"yes,omitempty"`
	Hidden string             `json:"-"`
	Fixed  [2]int             `json:"fixed"`
	Nested struct{ X, Y int } `json:"nested,omitempty"` //nolint:modernize // the option has no effect, here as in the library
}

func FuzzBytesAreThoseOfTheLibrary(f *testing.F) {
	f.Add("plain", []byte(`{"a":1}`), int64(1), 1.5, true)
	f.Add("<é \u2028\x00\"\\", []byte(`{"a": [1, "<x>"]}`), int64(-9), math.Copysign(0, -1), false)
	f.Add("\xff", []byte(`{"a":1}trailing`), int64(math.MinInt64), math.MaxFloat64, false)
	f.Add("", []byte(nil), int64(0), 1e-9, false)
	for _, special := range "\"\\<>&\x00\x1f\x7f\x80é" {
		for at := range 10 { // in the first eight characters, and after them
			f.Add("plain text"[:at]+string(special)+"plain text"[at:], []byte(`1`), int64(0), 0.5, true)
		}
	}
	f.Fuzz(func(t *testing.T, s string, raw []byte, n int64, x float64, yes bool) {
		v := everything{
			inner: inner{A: int(n), B: s}, Text: s, Plain: x, Raw: raw, Bytes: raw, List: []inner{{}, {B: s}},
			Map: map[string]int{s: 1}, At: time.Unix(n%1e9, 0).UTC(), Any: s, Small: int8(n), Big: uint64(n), Yes: yes, Hidden: s,
		}
		v.Self = &everything{Null: []string{s}}
		want, wantErr := json.Marshal(&v)
		got, err := Append([]byte("x"), &v)
		if (err != nil) != (wantErr != nil) || err == nil && string(got) != "x"+string(want) {
			t.Errorf("Append = %s, %v\nwant     %s, %v", got, err, want, wantErr)
		}
	})
}

func TestNilIsNull(t *testing.T) {
	t.Parallel()
	for _, v := range []any{nil, (*inner)(nil), []string(nil), json.RawMessage(nil), []byte(nil), struct{}{}} {
		want, _ := json.Marshal(v)
		if got, err := Append(nil, v); err != nil || string(got) != string(want) {
			t.Errorf("Append(%#v) = %s, %v, want %s", v, got, err, want)
		}
	}
}
