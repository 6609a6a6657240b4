package traffic_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/turnlog/turnlog/gateway/internal/traffic"
)

// counted counts how often a route is looked up.
type counted struct {
	*http.ServeMux

	asked int
}

func (c *counted) Handler(r *http.Request) (http.Handler, string) {
	c.asked++
	return c.ServeMux.Handler(r)
}

func TestARouteIsLookedForOncePerRequest(t *testing.T) {
	t.Parallel()
	mux := &counted{ServeMux: http.NewServeMux()}
	mux.HandleFunc("GET /api/sessions/{id}", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) })
	r := prometheus.NewRegistry()
	h := traffic.New(r).Measure(mux, mux)
	for _, path := range []string{"/api/sessions/s-1", "/api/sessions/s-2", "/else"} {
		h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil))
	}
	if mux.asked != 3 {
		t.Errorf("looked %d times for the routes of 3 requests", mux.asked)
	}
	page := httptest.NewRecorder()
	promhttp.HandlerFor(r, promhttp.HandlerOpts{}).ServeHTTP(page, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", nil))
	for _, line := range []string{`{code="404",route="other"} 1`, `{code="418",route="GET /api/sessions/{id}"} 2`} {
		if !strings.Contains(page.Body.String(), "\nturnlog_gateway_requests_total"+line+"\n") {
			t.Errorf("%s is missing:\n%s", line, page.Body)
		}
	}
}
