package integration

import (
	"bytes"
	"cmp"
	"context"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	otlp "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/turnlog/turnlog/tool"
)

// traced is an OpenTelemetry collector, and an HTTP tool.
type traced struct {
	mu    sync.Mutex
	spans []*otlp.Span
	calls []http.Header
}

func (b *traced) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	b.mu.Lock()
	defer b.mu.Unlock()
	body, err := io.ReadAll(r.Body)
	var in collector.ExportTraceServiceRequest
	switch {
	case err != nil:
		w.WriteHeader(http.StatusBadRequest)
	case r.URL.Path == "/tool" && r.Method == http.MethodGet:
		_, _ = w.Write([]byte(`{"description": "Looks something up.", "effects": "read_only"}`))
	case r.URL.Path == "/tool":
		b.calls = append(b.calls, r.Header)
		_, _ = w.Write([]byte("found"))
	case proto.Unmarshal(body, &in) != nil:
		w.WriteHeader(http.StatusBadRequest)
	}
	for _, of := range in.GetResourceSpans() {
		for _, s := range of.GetScopeSpans() {
			b.spans = append(b.spans, s.GetSpans()...)
		}
	}
}

// tree returns the spans below one, indented.
func (b *traced) tree(trace, parent string, depth int) (lines []string) {
	below := slices.DeleteFunc(slices.Clone(b.spans), func(s *otlp.Span) bool {
		return hex.EncodeToString(s.GetTraceId()) != trace || hex.EncodeToString(s.GetParentSpanId()) != parent
	})
	slices.SortFunc(below, func(x, y *otlp.Span) int { return cmp.Compare(x.GetStartTimeUnixNano(), y.GetStartTimeUnixNano()) })
	for _, s := range below {
		lines = append(append(lines, strings.Repeat("  ", depth)+s.GetName()), b.tree(trace, hex.EncodeToString(s.GetSpanId()), depth+1)...)
	}
	return lines
}

// TestOneTraceFromAClientToAToolAndBack sends input with a trace and a baggage to a gateway. Gateway, node and worker are processes, and
// the worker's tool is a service.
func TestOneTraceFromAClientToAToolAndBack(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	b := &traced{}
	service := httptest.NewServer(b)
	t.Cleanup(service.Close)
	d := deploy(t)
	d.env = []string{"OTEL_EXPORTER_OTLP_ENDPOINT=" + service.URL, "TURNLOG_GATEWAY_TOKEN=0123456789abcdef"}
	server := "nats://" + d.addr
	d.start("tool-worker", "--server", server, "--tools", "none", "--http-tool", "lookup="+service.URL+"/tool")
	view, err := d.cell.Catalog().Watch(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer view.Close()
	d.eventually("the worker offers its tool", func(context.Context) bool {
		offers := view.Snapshot()
		return len(offers) == 1 && slices.ContainsFunc(offers[0].Tools, func(s tool.Spec) bool { return s.Name == "lookup" })
	})
	d.node("n1")
	traces := d.start("observer", "traces", "--server", server)
	gateway := d.start("turnlog", "gateway", "--server", server, "--listen", "127.0.0.1:0", "--model", d.script(`
replies:
  - calls: [{name: lookup, input: {}}]
  - text: "done"
`))
	address := ""
	d.eventually("the gateway listens", func(context.Context) bool {
		for line := range strings.Lines(gateway.output()) {
			if strings.HasPrefix(line, "http://") {
				address = strings.TrimSpace(line)
			}
		}
		return address != ""
	})
	const trace, span = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, address+"api/sessions", bytes.NewReader([]byte(`{"id": "s", "text": "look"}`)))
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]string{
		"Authorization": "Bearer 0123456789abcdef", "Content-Type": "application/json",
		"Traceparent": "00-" + trace + "-" + span + "-01", "Baggage": "tenant=acme",
	} {
		r.Header.Set(name, value)
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil || resp.StatusCode != http.StatusCreated {
		t.Fatalf("POST: %v %v", resp, err)
	}
	_ = resp.Body.Close()
	var got []string
	d.eventually("the turn is exported", func(context.Context) bool {
		b.mu.Lock()
		defer b.mu.Unlock()
		got = b.tree(trace, span, 0)
		return len(got) > 0 && strings.HasPrefix(got[0], "invoke_agent")
	})
	want := []string{"invoke_agent", "  chat test", "  execute_tool lookup", "  chat test"}
	if !slices.EqualFunc(got, want, func(g, w string) bool { return strings.HasPrefix(g, strings.TrimSuffix(w, " test")) }) {
		t.Errorf("the trace is %q, want %q\n%s", got, want, traces.output())
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	i := slices.IndexFunc(b.spans, func(s *otlp.Span) bool { return s.GetName() == "execute_tool lookup" })
	if i < 0 || len(b.calls) != 1 {
		t.Fatalf("%d calls, span %d", len(b.calls), i)
	}
	if got, want := b.calls[0].Get("Traceparent"), fmt.Sprintf("00-%s-%x-01", trace, b.spans[i].GetSpanId()); got != want || b.calls[0].Get("Baggage") != "tenant=acme" {
		t.Errorf("the tool got traceparent %q and baggage %q, want %q", got, b.calls[0].Get("Baggage"), want)
	}
}
