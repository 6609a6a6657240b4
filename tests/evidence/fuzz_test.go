package evidence

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"github.com/turnlog/turnlog/audit"
	"github.com/turnlog/turnlog/audit/verdict"
)

// FuzzNoChangedExportIsAnchored edits an export at random. With the anchor of its end, the level anchored must
// not be reached by a file that says anything else.
func FuzzNoChangedExportIsAnchored(f *testing.F) {
	records := seal(f, entries())
	whole := []byte(join(export(f, records)))
	end := records[len(records)-1]
	anchor := audit.Anchor{Session: "s-1", Seq: end.Seq, Hash: end.Hash}
	for seed := range uint64(400) {
		f.Add(seed, byte(seed%3+1))
	}
	f.Fuzz(func(t *testing.T, seed uint64, edits byte) {
		random := rand.New(rand.NewPCG(seed, uint64(edits)))
		changed := bytes.Clone(whole)
		for range edits%4 + 1 {
			changed = edited(random, changed)
		}
		v, err := audit.VerifyImported(audit.Import(bytes.NewReader(changed)), anchor)
		if err != nil {
			t.Fatal(err)
		}
		if reached := v.Exit(verdict.Anchored) == verdict.ExitReached; reached && !same(whole, changed) {
			t.Errorf("a changed export is %s:\n%s", v.Level, changed)
		}
		if v.Exit(verdict.Anchored) != verdict.ExitReached && bytes.Equal(whole, changed) {
			t.Errorf("the export itself: %v", v.Faults)
		}
	})
}

// edited makes one random change.
func edited(random *rand.Rand, b []byte) []byte {
	if len(b) == 0 {
		return b
	}
	at := random.IntN(len(b))
	end := at + random.IntN(min(len(b)-at, 1+1<<random.IntN(10))) + 1
	end = min(end, len(b))
	part := bytes.Clone(b[at:end])
	switch random.IntN(7) {
	case 0: // flip one bit
		out := bytes.Clone(b)
		out[at] ^= 1 << random.IntN(8)
		return out
	case 1: // insert a byte
		return bytes.Join([][]byte{b[:at], {byte(random.IntN(256))}, b[at:]}, nil)
	case 2: // remove a part
		return append(bytes.Clone(b[:at]), b[end:]...)
	case 3: // duplicate a part
		return bytes.Join([][]byte{b[:end], part, b[end:]}, nil)
	case 4: // move a part
		to := random.IntN(len(b))
		return bytes.Join([][]byte{b[:to], part, b[to:]}, nil)
	case 5: // swap two lines
		lines := bytes.SplitAfter(b, []byte("\n"))
		i, j := random.IntN(len(lines)), random.IntN(len(lines))
		lines[i], lines[j] = lines[j], lines[i]
		return bytes.Join(lines, nil)
	default: // change the case of a word, or replace it with another
		words := []string{"approved", "denied", "ada", "bob", `"seq"`, `"SEQ"`, `"kind"`, `"Kind"`, "true", "false", "c1", "c2"}
		from, to := words[random.IntN(len(words))], words[random.IntN(len(words))]
		return []byte(strings.Replace(string(b), from, to, 1+random.IntN(3)))
	}
}

// same reports whether two exports have the same content, regardless of the layout of their lines.
func same(a, b []byte) bool {
	read := func(b []byte) (all []any) {
		d := json.NewDecoder(bytes.NewReader(b))
		d.UseNumber()
		for {
			var v any
			if d.Decode(&v) != nil {
				return all
			}
			all = append(all, v)
		}
	}
	return reflect.DeepEqual(read(a), read(b))
}
