package main

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	receiver "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	otlp "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/internal/testing/clitest"
)

// backend is an OpenTelemetry collector.
type backend struct {
	mu      sync.Mutex
	answers []int // of the next requests; then all are accepted
	partly  int   // of how many requests it says that it refused a span
	spans   []*otlp.Span
	service string
	asked   chan struct{} // receives after each request
}

func collect(t *testing.T, answers ...int) *backend {
	t.Helper()
	b := &backend{answers: answers, asked: make(chan struct{}, 100)}
	srv := httptest.NewServer(b)
	t.Cleanup(srv.Close)
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", srv.URL)
	return b
}

func (b *backend) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	b.mu.Lock()
	defer b.mu.Unlock()
	defer func() { b.asked <- struct{}{} }()
	if len(b.answers) > 0 {
		w.WriteHeader(b.answers[0])
		b.answers = b.answers[1:]
		return
	}
	var in receiver.ExportTraceServiceRequest
	raw, err := io.ReadAll(r.Body)
	if err != nil || r.URL.Path != "/v1/traces" || proto.Unmarshal(raw, &in) != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	for _, of := range in.GetResourceSpans() {
		for _, a := range of.GetResource().GetAttributes() {
			if a.GetKey() == "service.name" {
				b.service = a.GetValue().GetStringValue()
			}
		}
		for _, s := range of.GetScopeSpans() {
			b.spans = append(b.spans, s.GetSpans()...)
		}
	}
	if b.partly > 0 {
		b.partly--
		body, _ := proto.Marshal(&receiver.ExportTraceServiceResponse{PartialSuccess: &receiver.ExportTracePartialSuccess{RejectedSpans: 1, ErrorMessage: "too old"}})
		w.Header().Set("Content-Type", "application/x-protobuf")
		_, _ = w.Write(body)
	}
}

// names returns the names of the spans in the order in which they came.
func (b *backend) names() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	var all []string
	for _, s := range b.spans {
		all = append(all, s.GetName())
	}
	return strings.Join(all, ", ")
}

const turnSpans = "chat demo, execute_tool fs_read_file, chat demo, invoke_agent"

func TestTracesAreExported(t *testing.T) {
	b := collect(t)
	d := deploy(t)
	d.session("s-42").turn()
	if code, out, errs := d.observe("traces", "--once", "--from", "1"); code != 0 || out != "" {
		t.Fatalf("code %d, %s%s", code, out, errs)
	}
	if got := b.names(); got != turnSpans || b.service != "turnlog" {
		t.Fatalf("service %q has %s", b.service, got)
	}
	root := b.spans[3]
	for _, s := range b.spans[:3] {
		if string(s.GetTraceId()) != string(root.GetTraceId()) || string(s.GetParentSpanId()) != string(root.GetSpanId()) {
			t.Errorf("%s is not below %s", s.GetName(), root.GetName())
		}
	}
	if ran := b.spans[1].GetEndTimeUnixNano() - b.spans[1].GetStartTimeUnixNano(); ran != 1e9 {
		t.Errorf("the call ran for %d ns, want a second", ran)
	}
}

// TestTracesWaitForTheirCollector has a collector that is unavailable at first, and one that rejects a batch for
// good.
func TestTracesWaitForTheirCollector(t *testing.T) {
	b := collect(t, http.StatusServiceUnavailable, http.StatusTooManyRequests)
	d := deploy(t)
	d.session("s-42").turn()
	if code, _, errs := d.observe("traces", "--once", "--from", "1"); code != 0 || strings.Count(errs, "spans not exported yet") != 2 {
		t.Errorf("code %d, %s", code, errs)
	}
	if got := b.names(); got != turnSpans {
		t.Errorf("exported: %s", got)
	}
	b.answers = []int{http.StatusBadRequest}
	if code, _, errs := d.observe("traces", "--once", "--from", "1"); code != 0 || !strings.Contains(errs, "spans dropped") {
		t.Errorf("code %d, %s", code, errs)
	}
}

// TestSpansThatACollectorTookInPartAreNotSentAgain has a partial success. A retry would have the same result.
func TestSpansThatACollectorTookInPartAreNotSentAgain(t *testing.T) {
	b := collect(t)
	b.partly = 1
	d := deploy(t)
	d.session("s-42").turn()
	if code, _, errs := d.observe("traces", "--once", "--from", "1"); code != 0 || !strings.Contains(errs, "too old (1 spans rejected)") {
		t.Errorf("code %d, %s", code, errs)
	}
	if got := b.names(); got != turnSpans {
		t.Errorf("exported: %s", got)
	}
}

// TestTracesGoToACollectorWithCertificates uses a TLS certificate on both sides.
func TestTracesGoToACollectorWithCertificates(t *testing.T) {
	b := collect(t)
	srv := httptest.NewUnstartedServer(b)
	srv.TLS = &tls.Config{ClientAuth: tls.RequireAnyClientCert}
	srv.StartTLS()
	t.Cleanup(srv.Close)
	key, err := x509.MarshalPKCS8PrivateKey(srv.TLS.Certificates[0].PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	file := func(kind string, data []byte) string {
		name := filepath.Join(t.TempDir(), "file.pem")
		if err := os.WriteFile(name, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: data}), 0o600); err != nil {
			t.Fatal(err)
		}
		return name
	}
	certificate := file("CERTIFICATE", srv.Certificate().Raw)
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", srv.URL)
	t.Setenv("OTEL_EXPORTER_OTLP_CERTIFICATE", file("CERTIFICATE", nil))
	t.Setenv("OTEL_EXPORTER_OTLP_TRACES_CERTIFICATE", certificate)
	t.Setenv("OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE", certificate)
	t.Setenv("OTEL_EXPORTER_OTLP_CLIENT_KEY", file("PRIVATE KEY", key))
	d := deploy(t)
	d.session("s-42").turn()
	if code, _, errs := d.observe("traces", "--once", "--from", "1"); code != 0 || errs != "" {
		t.Errorf("code %d, %s", code, errs)
	}
	if got := b.names(); got != turnSpans {
		t.Errorf("exported: %s", got)
	}
}

// TestTracesOfASlowCollectorComeLater has a collector that accepts a request and does not answer.
func TestTracesOfASlowCollectorComeLater(t *testing.T) {
	b := collect(t)
	t.Setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "200")
	hold := make(chan struct{})
	var first sync.Once
	slow := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		held := false
		first.Do(func() { held = true })
		if held {
			<-hold
			return
		}
		b.ServeHTTP(w, r)
	}))
	defer slow.Close()
	defer close(hold)
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", slow.URL)
	d := deploy(t)
	d.session("s-42").turn()
	if code, _, errs := d.observe("traces", "--once", "--from", "1"); code != 0 || !strings.Contains(errs, "spans not exported yet") {
		t.Errorf("code %d, %s", code, errs)
	}
	if got := b.names(); got != turnSpans {
		t.Errorf("exported: %s", got)
	}
}

// TestInterruptedTracesAreNotDone interrupts while the collector is unavailable. Only with --once is that a failure.
func TestInterruptedTracesAreNotDone(t *testing.T) {
	b := collect(t)
	d := deploy(t)
	d.session("s-42").turn()
	for flag, want := range map[string]int{"--from=1": 0, "--once": 130} {
		b.mu.Lock()
		b.answers = slices.Repeat([]int{http.StatusServiceUnavailable}, 100)
		b.mu.Unlock()
		shown, stop := d.run("traces", "--from", "1", flag)
		shown.Await(t, "spans not exported yet")
		if code := stop(); code != want {
			t.Errorf("%s: code %d, want %d", flag, code, want)
		}
	}
}

func TestTracesGoOnAfterTheirCursor(t *testing.T) {
	b := collect(t)
	d := deploy(t)
	w := d.session("s-42").turn()
	at := filepath.Join(t.TempDir(), "cursor")
	for range 2 { // the second has nothing to do
		if code, _, errs := d.observe("traces", "--once", "--from", "1", "--cursor", at); code != 0 {
			t.Fatal(errs)
		}
	}
	w.do(commands.SubmitInput{Items: []content.Item{content.UserText("Thanks.")}})
	w.reply(nil, content.TextPart("You are welcome."))
	shown, stop := d.run("traces", "--cursor", at, "--http", "127.0.0.1:0", "--log-level", "info")
	address := "http://" + shown.AwaitMatch(t, `"address": ?"([^"]+)"`)
	const both = turnSpans + ", chat demo, invoke_agent"
	for len(b.names()) < len(both) {
		<-b.asked
	}
	if got := b.names(); got != both {
		t.Fatalf("exported: %s", got)
	}
	if links := b.spans[5].GetLinks(); len(links) != 1 || string(links[0].GetSpanId()) != string(b.spans[3].GetSpanId()) {
		t.Errorf("the second turn links to %v", links)
	}
	clitest.AwaitPage(t, address+"/metrics", `turnlog_observer_spans_total{result="exported"}`)
	if code := stop(); code != 0 {
		t.Errorf("code %d", code)
	}
}

func TestATracesFlagThatIsWrongIsNamed(t *testing.T) {
	d := deploy(t)
	for _, share := range []string{"2", "NaN"} {
		if code, _, errs := d.observe("traces", "--sample", share); code != 2 || !strings.Contains(errs, "--sample "+share+": the share is between 0 and 1") {
			t.Errorf("code %d, %s", code, errs)
		}
	}
}

// TestTheStandardVariablesDecideWhichTurnsAreExported has --sample override them.
func TestTheStandardVariablesDecideWhichTurnsAreExported(t *testing.T) {
	d := deploy(t)
	d.session("s-42").turn()
	for _, tt := range []struct {
		set  string
		args []string
		code int
		want string // the spans, or the error
	}{
		{"", nil, 0, turnSpans},
		{"OTEL_TRACES_EXPORTER=otlp", nil, 0, turnSpans},
		{"OTEL_TRACES_SAMPLER=always_off", nil, 0, ""},
		{"OTEL_TRACES_SAMPLER=parentbased_always_off", nil, 0, ""},
		{"OTEL_TRACES_SAMPLER=parentbased_always_off", []string{"--sample", "1"}, 0, turnSpans},
		{"OTEL_TRACES_SAMPLER=traceidratio", nil, 0, turnSpans},
		{"OTEL_TRACES_SAMPLER=traceidratio OTEL_TRACES_SAMPLER_ARG=0", nil, 0, ""},
		{"OTEL_TRACES_SAMPLER=parentbased_traceidratio OTEL_TRACES_SAMPLER_ARG=NaN", nil, 2, "OTEL_TRACES_SAMPLER_ARG=NaN: a share from 0 to 1 is expected"},
		{"OTEL_TRACES_SAMPLER=jaeger_remote", nil, 2, "OTEL_TRACES_SAMPLER=jaeger_remote: always_on"},
		{"OTEL_TRACES_SAMPLER=parentbased_", nil, 2, "OTEL_TRACES_SAMPLER=parentbased_: always_on"},
		{"OTEL_TRACES_EXPORTER=console", nil, 2, "OTEL_TRACES_EXPORTER=console: only otlp and none are supported"},
		{"OTEL_TRACES_EXPORTER=none", nil, 2, "no traces are exported"},
		{"OTEL_SDK_DISABLED=true", nil, 2, "no traces are exported"},
	} {
		t.Run(strings.TrimSpace(tt.set+" "+strings.Join(tt.args, " ")), func(t *testing.T) {
			b := collect(t)
			for pair := range strings.FieldsSeq(tt.set) {
				name, value, _ := strings.Cut(pair, "=")
				t.Setenv(name, value)
			}
			code, _, errs := d.observe(append([]string{"traces", "--once", "--from", "1"}, tt.args...)...)
			got := b.names()
			if code != 0 {
				got = errs
			}
			if code != tt.code || code == 0 && got != tt.want || !strings.Contains(got, tt.want) {
				t.Errorf("code %d, %q, want %d, %q", code, got, tt.code, tt.want)
			}
		})
	}
}
