// Package otlp exports the metrics and logs of a program to an OpenTelemetry collector, over OTLP and HTTP.
//
// The standard variables of OpenTelemetry configure it, so it needs no flags. It is off unless OTEL_METRICS_EXPORTER or
// OTEL_LOGS_EXPORTER is otlp. The program never waits for a collector: data that the collector does not accept is lost. The
// metrics are the same as the ones for Prometheus, with the same names.
package otlp

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/contrib/bridges/otelzap"
	bridge "go.opentelemetry.io/contrib/bridges/prometheus"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlplog/otlploghttp"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetrichttp"
	"go.opentelemetry.io/otel/sdk/log"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"golang.org/x/net/http/httpguts"

	"github.com/turnlog/turnlog/internal/release"
	"github.com/turnlog/turnlog/internal/sparselog"
	"github.com/turnlog/turnlog/internal/tracing"
)

// Scope is the instrumentation scope of everything that Turnlog exports.
const Scope = "github.com/turnlog/turnlog"

// Signal is a kind of telemetry, as named in the variables.
type Signal string

// The signals.
const (
	Traces  Signal = "TRACES"
	Metrics Signal = "METRICS"
	Logs    Signal = "LOGS"
)

// SettingError is returned for a variable with a value that cannot be used. Correct it.
type SettingError struct{ err error }

// Error names the variable and says what is expected.
func (e *SettingError) Error() string { return e.err.Error() }

// Unwrap returns the error of a file or a value that the variable names.
func (e *SettingError) Unwrap() error { return errors.Unwrap(e.err) }

func bad(format string, args ...any) error { return &SettingError{fmt.Errorf(format, args...)} }

// On reports whether the variables say that a signal is exported. Traces are, if no variable says anything.
func (s Signal) On() (bool, error) {
	name := "OTEL_" + string(s) + "_EXPORTER"
	switch to := os.Getenv(name); {
	case to == "" && s != Traces || to == "none" || strings.EqualFold(os.Getenv("OTEL_SDK_DISABLED"), "true"):
		return false, nil
	case to != "" && to != "otlp":
		return false, bad("%s=%s: only otlp and none are supported", name, to)
	}
	return true, nil
}

// Endpoint returns the default endpoint of a signal, or "" if a variable names a collector. It exists because an exporter's own
// default uses TLS. It returns an error for variables that an exporter would ignore.
func (s Signal) Endpoint() (string, error) {
	const prefix = "OTEL_EXPORTER_OTLP_"
	given := false
	for _, infix := range []string{"", string(s) + "_"} {
		if name := prefix + infix + "PROTOCOL"; os.Getenv(name) != "" && os.Getenv(name) != "http/protobuf" {
			return "", bad("%s=%s: only http/protobuf is supported", name, os.Getenv(name))
		}
		name := prefix + infix + "ENDPOINT"
		at := os.Getenv(name)
		if u, err := url.Parse(at); at != "" && (err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https") {
			return "", bad("%s: a URL is expected, like http://localhost:4318", name) // it may have a password
		}
		given = given || at != ""
		name = prefix + infix + "HEADERS"
		if all := os.Getenv(name); all != "" && !areHeaders(all) {
			return "", bad("%s: NAME=VALUE is expected, or several with commas between them", name) // they may have a key
		}
		name = prefix + infix + "COMPRESSION"
		if how := os.Getenv(name); how != "" && how != "gzip" && how != "none" {
			return "", bad("%s=%s: only gzip and none are supported", name, how)
		}
		for _, of := range []string{"CERTIFICATE", "CLIENT_CERTIFICATE", "CLIENT_KEY"} {
			name := prefix + infix + of
			if file := os.Getenv(name); file != "" {
				if _, err := os.ReadFile(file); err != nil { //nolint:gosec // the operator names it
					return "", bad("%s: %w", name, err)
				}
			}
		}
	}
	if _, err := s.timeout(); err != nil || given {
		return "", err
	}
	return "http://localhost:4318/v1/" + strings.ToLower(string(s)), nil
}

// areHeaders reports whether the exporters accept all headers of a list. They would log those that they ignore.
func areHeaders(list string) bool {
	for header := range strings.SplitSeq(list, ",") {
		name, value, _ := strings.Cut(header, "=")
		_, err := url.PathUnescape(value)
		if err != nil || !strings.Contains(header, "=") || !httpguts.ValidHeaderFieldName(strings.TrimSpace(name)) {
			return false
		}
	}
	return true
}

// timeout returns how long a collector may take for a request.
func (s Signal) timeout() (time.Duration, error) {
	for _, name := range s.variables("TIMEOUT") {
		if d, err := milliseconds(name); err != nil || d > 0 {
			return d, err
		}
	}
	return 10 * time.Second, nil
}

// variables returns the names of the variables of an exporter's setting, the one that decides first.
func (s Signal) variables(setting string) []string {
	const prefix = "OTEL_EXPORTER_OTLP_"
	return []string{prefix + string(s) + "_" + setting, prefix + setting}
}

// Client returns a client with the timeout and the certificates that the variables name. An exporter that is given a client does
// not apply them to it.
func (s Signal) Client() (*http.Client, error) {
	patience, err := s.timeout()
	if err != nil {
		return nil, err
	}
	file := func(setting string) string {
		names := s.variables(setting)
		return cmp.Or(os.Getenv(names[0]), os.Getenv(names[1]))
	}
	through := http.DefaultTransport.(*http.Transport).Clone() //nolint:forcetypeassert // no program replaces it
	through.TLSClientConfig = &tls.Config{MinVersion: tls.VersionTLS12}
	if name := file("CERTIFICATE"); name != "" {
		text, err := os.ReadFile(name) //nolint:gosec // the operator names it
		if err != nil {
			return nil, bad("certificates of collectors: %w", err)
		}
		roots := x509.NewCertPool()
		if !roots.AppendCertsFromPEM(text) {
			return nil, bad("certificates of collectors: %s has none", name)
		}
		through.TLSClientConfig.RootCAs = roots
	}
	if name, key := file("CLIENT_CERTIFICATE"), file("CLIENT_KEY"); name != "" && key != "" {
		own, err := tls.LoadX509KeyPair(name, key)
		if err != nil {
			return nil, bad("certificate for collectors: %w", err)
		}
		through.TLSClientConfig.Certificates = []tls.Certificate{own}
	}
	return &http.Client{Timeout: patience, Transport: through}, nil
}

// milliseconds returns the value of a variable; 0 if it is not set.
func milliseconds(name string) (time.Duration, error) {
	text := os.Getenv(name)
	if text == "" {
		return 0, nil
	}
	ms, err := strconv.Atoi(text)
	if err != nil || ms <= 0 || ms > math.MaxInt64/int(time.Millisecond) {
		return 0, bad("%s=%s: a number of milliseconds is expected", name, text)
	}
	return time.Duration(ms) * time.Millisecond, nil
}

// Sampler returns the sampler that OTEL_TRACES_SAMPLER and OTEL_TRACES_SAMPLER_ARG name. It is nil if they are not set.
func Sampler() (sdk.Sampler, error) {
	const name = "OTEL_TRACES_SAMPLER"
	text := os.Getenv(name)
	of, parent := strings.CutPrefix(text, "parentbased_")
	var s sdk.Sampler
	switch of {
	case "always_on":
		s = sdk.AlwaysSample()
	case "always_off":
		s = sdk.NeverSample()
	case "traceidratio":
		share, err := strconv.ParseFloat(cmp.Or(os.Getenv(name+"_ARG"), "1"), 64)
		if err != nil || !(share >= 0 && share <= 1) {
			return nil, bad("%s_ARG=%s: a share from 0 to 1 is expected", name, os.Getenv(name+"_ARG"))
		}
		s = sdk.TraceIDRatioBased(share)
	case "":
		if !parent {
			return nil, nil //nolint:nilnil // documented
		}
		fallthrough
	default:
		return nil, bad("%s=%s: always_on, always_off, traceidratio, and these after parentbased_ are supported", name, text)
	}
	if parent {
		s = sdk.ParentBased(s)
	}
	return s, nil
}

// Resource describes the process of a service. OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES change it.
func Resource(ctx context.Context, service string) (*resource.Resource, error) {
	r, err := resource.New(ctx,
		resource.WithAttributes(attribute.String("service.name", service), attribute.String("service.version", release.Version())),
		resource.WithTelemetrySDK(), resource.WithHost(), resource.WithProcessPID(), resource.WithFromEnv())
	if err != nil {
		return nil, bad("the resource of telemetry: %w", err)
	}
	return r, nil
}

// Propagators sets the propagators of this process from OTEL_PROPAGATORS; the default is tracecontext and baggage. It returns an
// error for other propagators.
func Propagators() error {
	const name = "OTEL_PROPAGATORS"
	list := os.Getenv(name)
	if list == "" {
		return nil
	}
	if err := tracing.Carry(list); err != nil {
		return bad("%s: %w", name, err)
	}
	return nil
}

// Stop exports the remaining data, until its context ends. Then nothing more is exported.
type Stop func(context.Context) error

// ExportMetrics exports the metrics of a registry, once a minute or as OTEL_METRIC_EXPORT_INTERVAL says. If metrics are not
// exported, it returns a nil Stop. It logs errors of exports to log.
func ExportMetrics(ctx context.Context, registry prometheus.Gatherer, log *zap.Logger) (Stop, error) {
	of, at, err := begin(ctx, Metrics, log)
	if of == nil || err != nil {
		return nil, err
	}
	for _, name := range []string{"OTEL_METRIC_EXPORT_INTERVAL", "OTEL_METRIC_EXPORT_TIMEOUT"} {
		if _, err := milliseconds(name); err != nil {
			return nil, err
		}
	}
	var options []otlpmetrichttp.Option
	if at != "" {
		options = append(options, otlpmetrichttp.WithEndpointURL(at))
	}
	to, err := otlpmetrichttp.New(ctx, options...)
	if err != nil {
		return nil, fmt.Errorf("export metrics: %w", err)
	}
	all := bridge.NewMetricProducer(bridge.WithGatherer(registry))
	return metric.NewMeterProvider(metric.WithResource(of), metric.WithReader(metric.NewPeriodicReader(to, metric.WithProducer(all)))).Shutdown, nil
}

// ExportLogs returns a core whose entries are exported, or nil if logs are not exported. It logs errors of exports to plain, which
// must not use the core.
func ExportLogs(ctx context.Context, least zapcore.LevelEnabler, plain *zap.Logger) (zapcore.Core, Stop, error) {
	of, at, err := begin(ctx, Logs, plain)
	if of == nil || err != nil {
		return nil, nil, err
	}
	var options []otlploghttp.Option
	if at != "" {
		options = append(options, otlploghttp.WithEndpointURL(at))
	}
	to, err := otlploghttp.New(ctx, options...)
	if err != nil {
		return nil, nil, fmt.Errorf("export logs: %w", err)
	}
	provider := log.NewLoggerProvider(log.WithResource(of), log.WithProcessor(log.NewBatchProcessor(to)))
	core, err := zapcore.NewIncreaseLevelCore(otelzap.NewCore(Scope, otelzap.WithLoggerProvider(provider)), least)
	if err != nil {
		return nil, nil, fmt.Errorf("export logs: %w", err)
	}
	return core, provider.Shutdown, nil
}

// begin returns the resource of an exported signal, and its default endpoint.
func begin(ctx context.Context, s Signal, log *zap.Logger) (of *resource.Resource, at string, err error) {
	if on, err := s.On(); !on || err != nil {
		return nil, "", err
	}
	if at, err = s.Endpoint(); err != nil {
		return nil, "", err
	}
	var sparse sparselog.Log
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) {
		sparse.Line(log, zapcore.WarnLevel, "telemetry not exported", zap.Error(err))
	}))
	of, err = Resource(ctx, filepath.Base(os.Args[0]))
	return of, at, err
}
