package cli_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"
	logs "go.opentelemetry.io/proto/otlp/collector/logs/v1"
	metrics "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"
	"google.golang.org/protobuf/proto"

	"github.com/turnlog/turnlog/internal/cli"
	"github.com/turnlog/turnlog/internal/cli/otlp"
)

// request is what a collector gets.
type request struct {
	path string
	body []byte
}

// collector passes requests on, and answers with a status. Its address is in the environment.
func collector(t *testing.T, status int) <-chan request {
	t.Helper()
	got := make(chan request, 100)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		got <- request{r.URL.Path, body}
		w.WriteHeader(status)
	}))
	t.Cleanup(srv.Close)
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", srv.URL)
	return got
}

func service(attributes []*common.KeyValue) string {
	for _, a := range attributes {
		if a.GetKey() == "service.name" {
			return a.GetValue().GetStringValue()
		}
	}
	return ""
}

func registry() *prometheus.Registry {
	r := prometheus.NewRegistry()
	calls := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "turnlog_calls_total", Help: "Calls."}, []string{"tool"})
	r.MustRegister(calls)
	calls.WithLabelValues("fs_read_file").Add(3)
	return r
}

func TestMetricsAreExported(t *testing.T) {
	got := collector(t, http.StatusOK)
	t.Setenv("OTEL_METRICS_EXPORTER", "otlp")
	stop, err := otlp.ExportMetrics(t.Context(), registry(), zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	if err := stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	r := <-got
	var in metrics.ExportMetricsServiceRequest
	if err := proto.Unmarshal(r.body, &in); err != nil || r.path != "/v1/metrics" {
		t.Fatalf("%s: %v", r.path, err)
	}
	of := in.GetResourceMetrics()[0]
	if got := service(of.GetResource().GetAttributes()); got != filepath.Base(os.Args[0]) {
		t.Errorf("service %q, want the name of the program", got)
	}
	m := of.GetScopeMetrics()[0].GetMetrics()[0]
	point := m.GetSum().GetDataPoints()[0]
	if m.GetName() != "turnlog_calls_total" || point.GetAsDouble() != 3 || point.GetAttributes()[0].GetValue().GetStringValue() != "fs_read_file" {
		t.Errorf("metric %v", m)
	}
}

func TestLogsAreExportedFromTheirLevelOn(t *testing.T) {
	got := collector(t, http.StatusOK)
	t.Setenv("OTEL_LOGS_EXPORTER", "otlp")
	t.Setenv("OTEL_SERVICE_NAME", "nodes")
	core, stop, err := otlp.ExportLogs(t.Context(), zapcore.InfoLevel, zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	log := zap.New(core)
	log.Debug("not this one")
	log.With(zap.String("session", "s-1")).Warn("session set aside", zap.Error(errors.New("damaged")))
	if err := stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	r := <-got
	var in logs.ExportLogsServiceRequest
	if err := proto.Unmarshal(r.body, &in); err != nil || r.path != "/v1/logs" {
		t.Fatalf("%s: %v", r.path, err)
	}
	of := in.GetResourceLogs()[0]
	records := of.GetScopeLogs()[0].GetLogRecords()
	if len(records) != 1 || records[0].GetBody().GetStringValue() != "session set aside" || records[0].GetSeverityText() != "warn" {
		t.Fatalf("records %v", records)
	}
	var attributes []string
	for _, a := range records[0].GetAttributes() {
		attributes = append(attributes, a.GetKey())
	}
	if !slices.Contains(attributes, "session") || service(of.GetResource().GetAttributes()) != "nodes" {
		t.Errorf("attributes %v, resource %v", attributes, of.GetResource())
	}
}

// A collector that refuses what it gets is reported, and nothing else happens.
func TestWhatIsNotExportedIsReported(t *testing.T) {
	got := collector(t, http.StatusBadRequest)
	t.Setenv("OTEL_METRICS_EXPORTER", "otlp")
	t.Setenv("OTEL_LOGS_EXPORTER", "otlp")
	said, lines := observer.New(zapcore.DebugLevel)
	plain := zap.New(said)
	core, stopLogs, err := otlp.ExportLogs(t.Context(), zapcore.InfoLevel, plain)
	if err != nil {
		t.Fatal(err)
	}
	stopMetrics, err := otlp.ExportMetrics(t.Context(), registry(), plain)
	if err != nil {
		t.Fatal(err)
	}
	zap.New(core).Info("started")
	for _, stop := range []otlp.Stop{stopLogs, stopMetrics} {
		err := stop(t.Context())
		<-got
		if err == nil && lines.FilterMessage("telemetry not exported").Len() == 0 {
			t.Error("a refused export is not reported")
		}
	}
}

// The end of a program does not wait longer than its context for a collector that does not answer.
func TestTheEndDoesNotWaitForACollector(t *testing.T) {
	asked, release := make(chan struct{}, 1), make(chan struct{})
	srv := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		asked <- struct{}{}
		<-release
	}))
	t.Cleanup(srv.Close)
	defer close(release)
	t.Setenv("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", srv.URL+"/v1/metrics")
	t.Setenv("OTEL_METRICS_EXPORTER", "otlp")
	stop, err := otlp.ExportMetrics(t.Context(), registry(), zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-asked
		cancel()
	}()
	if err := stop(ctx); err == nil {
		t.Error("stop returned no error, although its last export did not end")
	}
}

func TestTheEnvironmentDecides(t *testing.T) {
	const secret = "hunter2"
	for name, tt := range map[string]struct {
		env  map[string]string
		want string // of the error
	}{
		"nothing":              {nil, ""},
		"an endpoint alone":    {map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1"}, ""},
		"none":                 {map[string]string{"OTEL_METRICS_EXPORTER": "none"}, ""},
		"disabled":             {map[string]string{"OTEL_METRICS_EXPORTER": "otlp", "OTEL_SDK_DISABLED": "true"}, ""},
		"another exporter":     {map[string]string{"OTEL_METRICS_EXPORTER": "prometheus"}, "OTEL_METRICS_EXPORTER=prometheus: only otlp and none are supported"},
		"another protocol":     {map[string]string{"OTEL_METRICS_EXPORTER": "otlp", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, "OTEL_EXPORTER_OTLP_PROTOCOL=grpc: only http/protobuf is supported"},
		"an address, no URL":   {map[string]string{"OTEL_METRICS_EXPORTER": "otlp", "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": "localhost:4318"}, "a URL is expected"},
		"a password, no URL":   {map[string]string{"OTEL_METRICS_EXPORTER": "otlp", "OTEL_EXPORTER_OTLP_ENDPOINT": "me:" + secret + "@collector"}, "ENDPOINT: a URL is expected"},
		"no header":            {map[string]string{"OTEL_METRICS_EXPORTER": "otlp", "OTEL_EXPORTER_OTLP_HEADERS": "a=b,Bearer " + secret}, "OTLP_HEADERS: NAME=VALUE"},
		"no name of a header":  {map[string]string{"OTEL_METRICS_EXPORTER": "otlp", "OTEL_EXPORTER_OTLP_METRICS_HEADERS": "api key " + secret + "=="}, "METRICS_HEADERS: NAME=VALUE"},
		"no escape":            {map[string]string{"OTEL_METRICS_EXPORTER": "otlp", "OTEL_EXPORTER_OTLP_HEADERS": "key=%" + secret}, "OTLP_HEADERS: NAME=VALUE"},
		"headers alone":        {map[string]string{"OTEL_EXPORTER_OTLP_HEADERS": "a=b, c=d%20e"}, ""},
		"no compression":       {map[string]string{"OTEL_METRICS_EXPORTER": "otlp", "OTEL_EXPORTER_OTLP_METRICS_COMPRESSION": "lz4"}, "METRICS_COMPRESSION=lz4: only gzip and none are supported"},
		"no certificate":       {map[string]string{"OTEL_METRICS_EXPORTER": "otlp", "OTEL_EXPORTER_OTLP_CERTIFICATE": "/none.pem"}, "OTEL_EXPORTER_OTLP_CERTIFICATE: open /none.pem"},
		"no time":              {map[string]string{"OTEL_METRICS_EXPORTER": "otlp", "OTEL_EXPORTER_OTLP_TIMEOUT": "10s"}, "OTEL_EXPORTER_OTLP_TIMEOUT=10s: a number of milliseconds is expected"},
		"no interval":          {map[string]string{"OTEL_METRICS_EXPORTER": "otlp", "OTEL_METRIC_EXPORT_INTERVAL": "1m"}, "OTEL_METRIC_EXPORT_INTERVAL=1m: a number of milliseconds is expected"},
		"endless time":         {map[string]string{"OTEL_METRICS_EXPORTER": "otlp", "OTEL_EXPORTER_OTLP_TIMEOUT": "9223372036855"}, "OTEL_EXPORTER_OTLP_TIMEOUT=9223372036855: a number of milliseconds is expected"},
		"attributes that fail": {map[string]string{"OTEL_METRICS_EXPORTER": "otlp", "OTEL_RESOURCE_ATTRIBUTES": "nonsense"}, "the resource of telemetry"},
	} {
		t.Run(name, func(t *testing.T) {
			for k, v := range tt.env {
				t.Setenv(k, v)
			}
			stop, err := otlp.ExportMetrics(t.Context(), registry(), zap.NewNop())
			if stop != nil || (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
				t.Errorf("exports: %t, error %v, want %q", stop != nil, err, tt.want)
			}
			program := &cobra.Command{Use: "prog", SilenceErrors: true, SilenceUsage: true, RunE: func(*cobra.Command, []string) error { return err }}
			program.SetArgs([]string{})
			program.SetErr(io.Discard)
			if code := cli.Execute(t.Context(), program); err != nil && code != cli.CodeUsage {
				t.Errorf("the program exits with %d", code)
			}
			if err != nil && strings.Contains(err.Error(), secret) {
				t.Errorf("the error has a secret: %v", err)
			}
		})
	}
}
