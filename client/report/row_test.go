package report

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/s2"

	"github.com/turnlog/turnlog/content"
)

// TestARowOfAPageHasAllOfASummary fails for a field that is new and that a row leaves out.
func TestARowOfAPageHasAllOfASummary(t *testing.T) {
	t.Parallel()
	full := indexed{entries: 7, row: &Summary{Agent: &Agent{Name: "a", Version: "v"}, tools: "one\ntwo\n"}}
	for i := range 2 {
		v := reflect.ValueOf(full.row).Elem()
		if i == 1 {
			v = v.FieldByName("Usage")
		}
		for f := range v.NumField() {
			if field := v.Field(f); field.CanSet() {
				switch field.Kind() {
				case reflect.String:
					field.SetString(v.Type().Field(f).Name)
				case reflect.Int, reflect.Int64:
					field.SetInt(int64(-f - 1))
				case reflect.Pointer, reflect.Struct:
				default:
					t.Errorf("%s: a row has no %v", v.Type().Field(f).Name, field.Kind())
				}
			}
		}
	}
	used := account{Seq: 1, Model: "m", Spent: []spent{{"2026-11-28", "n", 2, content.Usage{InputTokens: 3, CostMicros: 4, Currency: "EUR"}}}, Fresh: true, Partial: true}
	want := []keptRow{
		rowFrom(full.row.Session, full, used.encode()), rowFrom("gone", indexed{entries: 1}, ""), rowFrom("empty", indexed{entries: 2, row: &Summary{Session: "empty"}}, ""),
		{Summary: Summary{Session: "unread"}, kind: rowUnread, spent: "some"},
	}
	var raw []byte
	for _, r := range want {
		raw = r.append(raw)
	}
	if sum := fmt.Sprintf("%d %x", pageFormat, sha256.Sum256(raw)); sum != "1 50039f20d81d00c36d0cb6dcf9f9d566616f64df1a3940988c4f768f71548090" {
		t.Errorf("rows have other bytes, %s: another format needs another number", sum)
	}
	var got []keptRow
	if err := each([][]byte{s2.Encode(nil, raw)}, func(r keptRow) { got = append(got, r) }); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(full, got[0].indexed(), cmp.AllowUnexported(indexed{}, Summary{})); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	for i, r := range want {
		if !bytes.Equal(r.append(nil), got[i].append(nil)) {
			t.Errorf("row %d is %+v, want %+v", i, got[i], r)
		}
	}
	for n := range raw[:40] {
		if err := each([][]byte{s2.Encode(nil, raw[:n])}, func(keptRow) {}); n > 0 && err == nil {
			t.Errorf("%d bytes are a row", n)
		}
	}
}
