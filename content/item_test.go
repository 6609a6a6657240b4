package content

import (
	"encoding/json"
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/vmihailenco/msgpack/v5"

	"github.com/turnlog/turnlog/internal/testing/sample"
)

func TestTextJoinsTheTextPartsOfAnItem(t *testing.T) {
	t.Parallel()
	call := ToolCall{ID: "c1", Name: "t"}
	mixed := NewItem(Assistant, TextPart("a"), Part{Kind: ReasoningKind, Text: "hidden"}, CallPart(call), TextPart("b"))
	for want, it := range map[string]Item{"ab": mixed, "hi": UserText("hi"), "": {Kind: User}, "sys": SystemText("sys")} {
		if got := it.Text(); got != want {
			t.Errorf("Text = %q, want %q", got, want)
		}
	}
	if diff := cmp.Diff([]ToolCall{call}, mixed.Calls()); diff != "" {
		t.Errorf("Calls: -want +got\n%s", diff)
	}
	result := NewResult("c1", "t", StatusError, "no")
	if diff := cmp.Diff([]ToolResult{result}, NewItem(Tool, ResultPart(result)).Results()); diff != "" {
		t.Errorf("Results: -want +got\n%s", diff)
	}
	if AssistantText("x").Calls() != nil || AssistantText("x").Results() != nil {
		t.Error("a text has calls or results")
	}
}

func TestTextJoinsTheOutputOfAResult(t *testing.T) {
	t.Parallel()
	r := NewResult("c1", "t", StatusOK, "plain")
	if r.Text() != "plain" || r.IsError {
		t.Errorf("NewResult = %+v", r)
	}
	r.Output = []Part{TextPart("n="), StructuredPart(json.RawMessage(`{"n":1}`)), {Kind: FileKind, Name: "f", Media: &Media{}}}
	if got := r.Text(); got != `n={"n":1}` {
		t.Errorf("Text = %q", got)
	}
}

func TestEveryStatusHasAPublicName(t *testing.T) {
	t.Parallel()
	for s, want := range map[Status]string{
		StatusOK: "ok", StatusError: "error", StatusDenied: "denied", StatusExpired: "denied", StatusSkipped: "denied",
		StatusCancelled: "cancelled", StatusLimit: "cancelled", StatusTerminated: "cancelled",
		StatusNotExecuted: "cancelled", StatusUnknown: "unknown", "of a later release": "error",
	} {
		if got := s.Public(); got != want {
			t.Errorf("%s is shown as %s, want %s", s, got, want)
		}
		if s.IsError() != (s != StatusOK) {
			t.Errorf("%s: IsError = %v", s, s.IsError())
		}
	}
}

func TestOnlySomeErrorsAndEffectsAreRetryable(t *testing.T) {
	t.Parallel()
	for c, want := range map[ErrorClass]bool{
		ClassRateLimit: true, ClassOverloaded: true, ClassTimeout: true, ClassNetwork: true, ClassServer: true,
		ClassAuth: false, ClassBilling: false, ClassInvalid: false, ClassTooLong: false, ClassBlocked: false,
		ClassExhausted: false, ClassLost: false, ClassOther: false, "new": false,
	} {
		if c.Retryable() != want {
			t.Errorf("%s: Retryable = %v", c, !want)
		}
	}
	if Once.Retryable() || !ReadOnly.Retryable() || !Idempotent.Retryable() {
		t.Error("the wrong effects are retried")
	}
}

func TestACostIsExact(t *testing.T) {
	t.Parallel()
	for micros, want := range map[int64]string{0: "", 1: "0.000001 EUR", 4200: "0.0042 EUR", 1_500_000: "1.50 EUR", 12_000_000: "12.00 EUR", 1_234_567_891: "1234.567891 EUR"} {
		if got := (Usage{CostMicros: micros, Currency: "EUR"}).Cost(); got != want {
			t.Errorf("%d millionths are shown as %q, want %q", micros, got, want)
		}
	}
	if got := (Usage{CostMicros: 2_000_000}).Cost(); got != "2.00" {
		t.Errorf("without a currency: %q", got)
	}
}

func TestUsageAddsUp(t *testing.T) {
	t.Parallel()
	one := Usage{InputTokens: 1, OutputTokens: 2, ReasoningTokens: 3, CacheReadTokens: 4, CacheWriteTokens: 5, CostMicros: 6}
	priced := one
	priced.Currency = "EUR"
	want := Usage{InputTokens: 2, OutputTokens: 4, ReasoningTokens: 6, CacheReadTokens: 8, CacheWriteTokens: 10, CostMicros: 12, Currency: "EUR"}
	if got := one.Add(priced); got != want {
		t.Errorf("Add = %+v", got)
	}
	if got := want.Add(Usage{Currency: "USD"}); got != want {
		t.Errorf("a second currency gives %+v", got)
	}
	if got := want.TotalTokens(); got != 6 {
		t.Errorf("TotalTokens = %d", got)
	}
}

func TestACacheRequestWithUnknownValuesIsInvalid(t *testing.T) {
	t.Parallel()
	good := CacheRequest{Mode: "required", Retention: "extended", Breakpoints: []Breakpoint{{Kind: "tools_end"}, {Kind: "item_end", Item: 1}}}
	if !good.Valid() || !(CacheRequest{}).Valid() {
		t.Error("a good request is refused")
	}
	for _, bad := range []CacheRequest{{Mode: "x"}, {Retention: "x"}, {Breakpoints: []Breakpoint{{Kind: "x"}}}} {
		if bad.Valid() {
			t.Errorf("%+v is accepted", bad)
		}
	}
}

func TestClonedItemsCanBeEdited(t *testing.T) {
	t.Parallel()
	items := []Item{UserText("a"), UserText("b")}
	clone := CloneItems(items)
	clone[0].Parts[0].Text = "changed"
	clone[1] = SystemText("changed")
	if diff := cmp.Diff([]Item{UserText("a"), UserText("b")}, items); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	if CloneItems(nil) != nil {
		t.Error("a nil slice did not stay nil")
	}
}

func TestDetachedItemsShareNothing(t *testing.T) {
	t.Parallel()
	whole := func() []Item {
		result := NewResult("c1", "t", StatusOK, "as it was")
		result.Metadata = Metadata{}.With("k", "v")
		return []Item{
			{
				ID: "i1", Kind: Assistant, Usage: &Usage{InputTokens: 1}, Metadata: Metadata{}.With("m", 1),
				Parts: []Part{
					CallPart(ToolCall{ID: "c1", Input: json.RawMessage(`{"a":1}`)}),
					ResultPart(result),
					{Kind: ReasoningKind, Reasoning: &Reasoning{Signature: []byte{1}, Encrypted: []byte{2}}, Metadata: Metadata{}.With("p", 1)},
					{Kind: MediaKind, Media: &Media{Bytes: []byte{3}}},
					StructuredPart(json.RawMessage(`{"b":2}`)),
				},
			},
			{Kind: User},
			{Kind: Tool, Parts: []Part{ResultPart(ToolResult{Output: []Part{ResultPart(result)}})}},
		}
	}
	items := whole()
	copied := DetachItems(items)
	if diff := cmp.Diff(items, copied); diff != "" {
		t.Fatalf("the copy differs: -want +got\n%s", diff)
	}
	ruin(reflect.ValueOf(copied))
	if diff := cmp.Diff(whole(), items); diff != "" {
		t.Errorf("an edit of the copy reached the items: -want +got\n%s", diff)
	}
	if DetachItems(nil) != nil {
		t.Error("a nil slice did not stay nil")
	}
}

// ruin modifies everything reachable in place.
func ruin(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			ruin(v.Elem())
		}
	case reflect.Slice:
		for i := range v.Len() {
			ruin(v.Index(i))
		}
	case reflect.Struct:
		for _, f := range v.Fields() {
			ruin(f)
		}
	case reflect.String:
		v.SetString(v.String() + "!")
	case reflect.Uint8:
		v.SetUint(v.Uint() + 1)
	case reflect.Int, reflect.Int64:
		v.SetInt(v.Int() + 1)
	case reflect.Bool:
		v.SetBool(!v.Bool())
	default:
		panic("a field of kind " + v.Kind().String() + " that is not ruined")
	}
}

func BenchmarkDetachItems(b *testing.B) {
	items := make([]Item, 0, 1000)
	for range 500 {
		items = append(items,
			NewItem(Assistant, TextPart("some text"), CallPart(ToolCall{ID: "c1", Name: "t", Input: json.RawMessage(`{"path":"a/b/c"}`)})),
			NewItem(Tool, ResultPart(NewResult("c1", "t", StatusOK, "what came of it"))))
	}
	b.ReportAllocs()
	for b.Loop() {
		DetachItems(items)
	}
}

// fullItem is an item with all fields set.
func fullItem() Item {
	result := NewResult("c2", "read", StatusError, "no such file")
	result.Code, result.Metadata = "failed", Metadata{}.With("k", "v")
	return Item{
		ID: "i1", Kind: Assistant, CreatedAt: 1_700_000_000_123_456_789, FinishReason: ToolCalls, Metadata: Metadata{}.With("m", -1),
		Usage: &Usage{
			InputTokens: 1, OutputTokens: 200, ReasoningTokens: 70_000, CacheReadTokens: 1 << 40, CacheWriteTokens: 5, CostMicros: 6, Currency: "EUR",
		},
		Parts: []Part{
			{Kind: TextKind, Text: "t", Name: "n", Data: json.RawMessage(`{}`), Metadata: Metadata{}.With("p", nil)},
			{Kind: MediaKind, Media: &Media{Modality: "image", MIME: "image/png", Bytes: []byte{1}, URI: "blob:x"}},
			{Kind: ReasoningKind, Reasoning: &Reasoning{Signature: []byte{0, 255}, Encrypted: []byte{7}, Redacted: true}},
			CallPart(ToolCall{ID: "c1", Place: "t1-r1-c1", Name: "read", Input: json.RawMessage(`{"n":1}`), ProviderID: "p"}),
			ResultPart(result),
		},
	}
}

func TestItemsSurviveBothEncodings(t *testing.T) {
	t.Parallel()
	if unset := sample.Unset(fullItem()); len(unset) > 0 {
		t.Errorf("the item leaves fields unset: %v", unset)
	}
	want := []Item{UserText("bytes that are no text: \xff"), fullItem()}
	packed, err := msgpack.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	var got []Item
	if err := msgpack.Unmarshal(packed, &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("msgpack: -want +got\n%s", diff)
	}
	text, err := json.Marshal(want[1:])
	if err != nil {
		t.Fatal(err)
	}
	got = nil
	if err := json.Unmarshal(text, &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want[1:], got); diff != "" {
		t.Errorf("JSON: -want +got\n%s", diff)
	}
}
