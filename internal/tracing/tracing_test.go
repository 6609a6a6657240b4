package tracing_test

import (
	"fmt"
	"strings"
	"testing"

	"go.opentelemetry.io/otel"

	"github.com/turnlog/turnlog/internal/tracing"
)

const parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"

func TestOnlyTraceParentsPass(t *testing.T) {
	for given, want := range map[string]string{
		"": "", parent: parent, "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00",
		"00-00000000000000000000000000000000-00f067aa0ba902b7-01": "", parent + "\r\nX: y": "", strings.Repeat("0", 2<<20): "",
	} {
		if got := tracing.Parent(tracing.With(t.Context(), given, "")); got != want {
			t.Errorf("%.80q becomes %q, want %q", given, got, want)
		}
	}
}

func TestOnlyBaggagePasses(t *testing.T) {
	var many []string
	for n := range 65 {
		many = append(many, fmt.Sprintf("m%d=v", n))
	}
	for given, want := range map[string]int{
		"": 0, "tenant=acme": 1, "tenant=acme;secret=no , user=%C3%A4": 2, "nonsense": 0, "tenant=acme\r\nX: y": 0,
		"a=" + strings.Repeat("0", 8190): 1, "a=" + strings.Repeat("0", 8191): 0, "a=" + strings.Repeat("0", 2<<20): 0, strings.Join(many, ","): 64,
	} {
		got := tracing.Baggage(tracing.With(t.Context(), "", given))
		if members := len(strings.FieldsFunc(got, func(r rune) bool { return r == ',' })); members != want || len(got) > 8192 {
			t.Errorf("%.80q becomes %.80q: %d members, want %d", given, got, members, want)
		}
	}
}

func TestAProcessCarriesWhatItIsTold(t *testing.T) {
	before := otel.GetTextMapPropagator()
	t.Cleanup(func() { otel.SetTextMapPropagator(before) })
	for list, want := range map[string][2]string{
		"tracecontext,baggage": {parent, "tenant=acme"}, "tracecontext": {parent, ""}, "none, baggage": {"", "tenant=acme"}, "none": {},
	} {
		if err := tracing.Carry(list); err != nil {
			t.Fatal(err)
		}
		ctx := tracing.With(t.Context(), parent, "tenant=acme")
		if got := [2]string{tracing.Parent(ctx), tracing.Baggage(ctx)}; got != want {
			t.Errorf("with %q it carries %q, want %q", list, got, want)
		}
	}
	if err := tracing.Carry("b3"); err == nil {
		t.Error("b3 is accepted")
	}
}
