package content

import (
	"encoding/json"
	"math"
	"testing"
	"time"

	"github.com/vmihailenco/msgpack/v5"
)

func TestTimeSurvivesEveryEncoding(t *testing.T) {
	t.Parallel()
	for _, want := range []Time{0, 1, -1, 1_700_000_000_123_456_789, math.MaxInt64, math.MinInt64} {
		type holder struct {
			At Time `json:"at" msgpack:"at"`
		}
		var viaJSON, viaMsgpack holder
		text, err := json.Marshal(holder{want})
		if err == nil {
			err = json.Unmarshal(text, &viaJSON)
		}
		if err != nil || viaJSON.At != want {
			t.Errorf("JSON: %d became %d by %s, %v", want, viaJSON.At, text, err)
		}
		packed, err := msgpack.Marshal(holder{want})
		if err == nil {
			err = msgpack.Unmarshal(packed, &viaMsgpack)
		}
		if err != nil || viaMsgpack.At != want || len(packed) != len("\x81\xa2at\xd3")+8 {
			t.Errorf("msgpack: %d became %d by %q, %v", want, viaMsgpack.At, packed, err)
		}
		if got := TimeOf(want.Std()); got != want {
			t.Errorf("time.Time: %d became %d", want, got)
		}
	}
}

func TestTimesAreParsed(t *testing.T) {
	t.Parallel()
	at := TimeOf(time.Date(2025, 3, 1, 12, 0, 0, 500, time.FixedZone("", 3600)))
	if got := at.String(); got != "2025-03-01T11:00:00.0000005Z" {
		t.Errorf("String = %s", got)
	}
	if got := Time(0).String(); got != "never" {
		t.Errorf("the zero Time is %q", got)
	}
	if !Time(0).Std().IsZero() || TimeOf(time.Time{}) != 0 {
		t.Error("the zero Time is not the zero time.Time")
	}
	if text, err := json.Marshal(Time(0)); err != nil || string(text) != `""` {
		t.Errorf("the zero Time as JSON is %s, %v", text, err)
	}
	if later := at.Add(time.Minute); later.Sub(at) != time.Minute {
		t.Errorf("Add and Sub disagree: %v", later.Sub(at))
	}
}

func TestInvalidTimesAreRejected(t *testing.T) {
	t.Parallel()
	at := Time(7)
	for _, bad := range []string{`"soon"`, `12`, `"2025-03-01"`, `{}`, `"`} {
		if err := json.Unmarshal([]byte(bad), &at); err == nil {
			t.Errorf("%s was read as %v", bad, at)
		}
	}
	if err := json.Unmarshal([]byte("null"), &at); err != nil || at != 7 {
		t.Errorf("null changed it to %d, %v", at, err)
	}
}
