package integration

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"
)

// provider is an HTTP model whose answers stream until the test releases them.
type provider struct {
	srv *httptest.Server
	end chan struct{}
}

// The provider's prompts.
const (
	promptStream = "stream" // a text answer
	promptTool   = "tool"   // a call, then an answer
)

func newProvider(tb testing.TB) *provider {
	tb.Helper()
	p := &provider{end: make(chan struct{})}
	p.srv = httptest.NewServer(p)
	tb.Cleanup(p.srv.Close)
	return p
}

// env makes processes use the provider as openai.
func (p *provider) env() []string {
	return []string{"OPENAI_API_KEY=none", "OPENAI_BASE_URL=" + p.srv.URL}
}

// release lets all answers end, now and later.
func (p *provider) release() { close(p.end) }

func (p *provider) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var body bytes.Buffer
	if _, err := body.ReadFrom(r.Body); err != nil {
		return // the caller died
	}
	var asked struct {
		Messages []struct {
			Role    string `json:"role"`
			Content any    `json:"content"`
		} `json:"messages"`
	}
	if err := json.Unmarshal(body.Bytes(), &asked); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	last := asked.Messages[len(asked.Messages)-1]
	if last.Role == "user" && fmt.Sprint(last.Content) == promptTool {
		call := `{"index":0,"id":"c1","type":"function","function":{"name":"shell_exec","arguments":"{\"argv\":[\"cat\",\"pipe\"]}"}}`
		chunk(w, `{"role":"assistant","tool_calls":[`+call+`]}`, "null")
		finish(w, "tool_calls")
		return
	}
	p.stream(w, r)
}

func (p *provider) stream(w http.ResponseWriter, r *http.Request) {
	tick := time.NewTicker(500 * time.Millisecond)
	defer tick.Stop()
	for {
		chunk(w, `{"role":"assistant","content":"and on "}`, "null")
		select {
		case <-tick.C:
		case <-r.Context().Done():
			return
		case <-p.end:
			finish(w, "stop")
			return
		}
	}
}

func finish(w http.ResponseWriter, reason string) {
	chunk(w, `{}`, `"`+reason+`"`)
	_, _ = fmt.Fprint(w, "data: [DONE]\n\n") // the caller may be gone
}

func chunk(w http.ResponseWriter, delta, reason string) {
	_, _ = fmt.Fprintf(w, `data: {"id":"x","object":"chat.completion.chunk","created":1,"model":"slow","choices":[{"index":0,"delta":%s,"finish_reason":%s}]}`+"\n\n", delta, reason)
	w.(http.Flusher).Flush() //nolint:forcetypeassert // net/http's can
}
