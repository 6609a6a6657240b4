package commands

import (
	"go/ast"
	"go/parser"
	"go/token"
	"reflect"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/turnlog/turnlog/events"
)

func TestEverySealedTypeHasASampleAndAName(t *testing.T) {
	t.Parallel()
	var sealed, shown []string
	for _, file := range []string{"asks.go", "reports.go"} {
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, decl := range f.Decls {
			if fn, ok := decl.(*ast.FuncDecl); ok && fn.Name.Name == "command" {
				sealed = append(sealed, fn.Recv.List[0].Type.(*ast.Ident).Name)
			}
		}
	}
	names := map[string]bool{}
	for _, c := range samples() {
		shown = append(shown, reflect.TypeOf(c).Name())
		if names[NameOf(c)] {
			t.Errorf("%s is the name of two commands", NameOf(c))
		}
		names[NameOf(c)] = true
	}
	slices.Sort(sealed)
	slices.Sort(shown)
	if diff := cmp.Diff(sealed, shown); diff != "" {
		t.Errorf("samples_test.go needs one sample of each sealed type (-sealed +sample):\n%s", diff)
	}
}

func TestAsksAndReportsAreDistinguished(t *testing.T) {
	t.Parallel()
	for _, c := range askSamples() {
		if !IsAsk(c) {
			t.Errorf("%s is taken for a report", NameOf(c))
		}
	}
	for _, c := range reportSamples() {
		if IsAsk(c) {
			t.Errorf("%s is taken for an ask", NameOf(c))
		}
	}
}

// Permissions are per lane, so a command in the wrong lane is forged.
func TestEveryCommandHasTheLaneOfItsSender(t *testing.T) {
	t.Parallel()
	want := map[events.Lane][]string{
		events.LaneAsk: {
			"open_session", "submit_input", "continue", "cancel", "detach_call", "set_next_turn_cache", "switch_model", "start_task", "close",
			"report_verify",
		},
		events.LaneDecide: {"resolve_approval", "allow_tools", "settle_dead_letter"},
		events.LaneReport: {"report_result", "report_attempt_lost", "report_overtaken", "report_gate"},
		events.LaneDue:    {"report_timer"},
		events.LaneLocal: {
			"claim", "park", "report_reply", "report_model_failed", "report_model_stopped", "report_preflight", "report_hooks",
			"report_mutation", "report_recall", "report_memory",
		},
	}
	got := map[events.Lane][]string{}
	for _, c := range samples() {
		got[LaneOf(c)] = append(got[LaneOf(c)], NameOf(c))
	}
	for lane, names := range want {
		if !slices.Equal(got[lane], names) {
			t.Errorf("lane %q carries %v, this test wants %v (in the order of the samples)", lane, got[lane], names)
		}
	}
}
