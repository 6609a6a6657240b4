package mcp

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/turnlog/turnlog/content"
)

// answerTo is the answer of a minimal server to a message; "": none.
func answerTo(message []byte) string {
	var r struct {
		ID     json.RawMessage
		Method string
	}
	_ = json.Unmarshal(message, &r)
	result := map[string]string{
		"initialize": `{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"x","version":"1"}}`,
		"tools/list": `{"tools":[{"name":"hi","inputSchema":{"type":"object"}}]}`,
		"tools/call": `{"content":[{"type":"text","text":"hi"}]}`,
	}[r.Method]
	switch {
	case r.ID == nil || r.Method == "":
		return ""
	case result == "":
		return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"unknown"}}`, r.ID)
	}
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%s}`, r.ID, result)
}

// hostileMain is a program that sends unexpected messages with its list of tools. Its answer
// to a call has many values if many is set; otherwise many requests follow it, whose answers
// it does not read.
func hostileMain(many bool) int {
	for in := bufio.NewReader(os.Stdin); ; {
		line, err := in.ReadBytes('\n')
		if err != nil {
			return 0
		}
		if strings.Contains(string(line), `"tools/list"`) {
			fmt.Println(`{"jsonrpc":"2.0","method":"notifications/elicitation/complete"}`)
			fmt.Println(`[{"jsonrpc":"2.0","method":"x"}]`)
		}
		if answer := answerTo(line); answer != "" && many {
			fmt.Println(strings.Replace(answer, `[{"type":"text"`, "["+strings.Repeat(strings.Repeat("{},", maxValues/2)+"\n", 2)+`{"type":"text"`, 1))
		} else if answer != "" {
			fmt.Println(answer)
		}
		if !many && strings.Contains(string(line), `"tools/call"`) {
			out := bufio.NewWriter(os.Stdout)
			for i := range 50_000 {
				_, _ = fmt.Fprintf(out, `{"jsonrpc":"2.0","id":"r%d","method":"ping"}`+"\n", i)
			}
			_ = out.Flush()
			select {} // it reads no answer
		}
	}
}

// The SDK runs its handlers on goroutines of its own: a panic in one would end the worker. It
// queues requests without a limit.
func TestAHostileProgramLosesItsConnection(t *testing.T) {
	t.Parallel()
	m := open(t, Config{Servers: []Server{programServer(t, "x", "hostile")}, Backoff: Backoff{First: time.Hour, Most: time.Hour}})
	ready(t, m)
	hi := named(t, m, "mcp_x_hi")
	for range 2 { // it ends, and the next call starts it again
		invoke(t, hi, `{}`)
		eventually(t, "it is unavailable", func() bool {
			err := m.Status()[0].Err
			return err != nil && strings.Contains(err.Error(), errAsksTooMuch.Error())
		})
	}
}

// A server could leave the answers to its requests unread, each of which takes a connection and the request.
func TestAHostileURLHoldsFewAnswers(t *testing.T) {
	t.Parallel()
	const asked = 200
	var held, most atomic.Int64
	over := make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet { // the stream of its messages
			w.Header().Set("Content-Type", "text/event-stream")
			for i := range asked {
				_, _ = fmt.Fprintf(w, "data: {\"jsonrpc\":\"2.0\",\"id\":\"r%d\",\"method\":\"ping\"}\n\n", i)
			}
			_, _ = fmt.Fprint(w, "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/elicitation/complete\"}\n\n")
			_ = http.NewResponseController(w).Flush()
			<-over
			return
		}
		body, _ := io.ReadAll(r.Body)
		answer := answerTo(body)
		if strings.Contains(string(body), `"result"`) {
			most.Store(max(most.Load(), held.Add(1)))
			<-over
		}
		if w.Header().Set("Content-Type", "application/json"); answer == "" {
			w.WriteHeader(http.StatusAccepted)
		}
		_, _ = io.WriteString(w, answer)
	}))
	t.Cleanup(s.Close)
	t.Cleanup(func() { close(over) })
	m := open(t, Config{Servers: []Server{{Name: "x", URL: s.URL}}})
	ready(t, m)
	eventually(t, "it holds answers", func() bool { return held.Load() >= maxAnswers })
	wantText(t, invoke(t, named(t, m, "mcp_x_hi"), `{}`), content.StatusOK, "", "hi")
	if n := most.Load(); n > maxAnswers {
		t.Errorf("it holds %d answers", n)
	}
	start := time.Now()
	m.Close()
	if took := time.Since(start); took > answerTimeout/2 {
		t.Errorf("it closes after %v", took)
	}
}

// Values of 3 bytes in a message take a hundred times that in memory.
func TestAMessageOfManyValuesEndsTheConnection(t *testing.T) {
	t.Parallel()
	many := strings.Repeat("{},", maxValues)
	for name, s := range map[string]Server{
		"program": programServer(t, "x", "many"), "json": {URL: ""}, "events": {URL: ""},
	} {
		s.Name = "x"
		if s.Command == nil {
			h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				body, _ := io.ReadAll(r.Body)
				answer := strings.Replace(answerTo(body), `[{"type":"text"`, "["+many+`{"type":"text"`, 1)
				switch {
				case answer == "":
					w.WriteHeader(http.StatusAccepted)
				case name == "json":
					w.Header().Set("Content-Type", "application/json")
					_, _ = io.WriteString(w, answer)
				default:
					w.Header().Set("Content-Type", "text/event-stream")
					_, _ = fmt.Fprintf(w, ": \"\ndata: %s\n\n", answer)
				}
			}))
			t.Cleanup(h.Close)
			s.URL = h.URL
		}
		m := open(t, Config{Servers: []Server{s}})
		ready(t, m)
		r := invoke(t, named(t, m, "mcp_x_hi"), `{}`).Result
		if r.Status != content.StatusError || r.Code != CodeUnavailable {
			t.Errorf("%s: result = %s %s %.100q", name, r.Status, r.Code, r.Text())
		}
	}
}

func TestTextsAndEventsAreNotCountedAsValues(t *testing.T) {
	t.Parallel()
	v := values{events: true}
	for range 3 {
		event := `data: {"a":"` + strings.Repeat(`,[{\"`, maxValues) + `","b":[1,2]}` + "\r\n\r\n"
		if err := v.add([]byte(event)); err != nil || v.n != 0 {
			t.Errorf("%d values, %v", v.n, err)
		}
	}
}

// The SDK reads the body of an error as a whole.
func TestAnErrorWithoutEndIsCut(t *testing.T) {
	t.Parallel()
	const limit = 64 << 20
	var sent atomic.Int64
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		w.WriteHeader(http.StatusInternalServerError)
		piece := make([]byte, 1<<20)
		for sent.Add(int64(len(piece))) < limit {
			if _, err := w.Write(piece); err != nil {
				return
			}
		}
	}))
	t.Cleanup(s.Close)
	m := open(t, Config{maxMessage: 200_000, Backoff: Backoff{First: 1 << 40, Most: 1 << 40}, Servers: []Server{{Name: "x", URL: s.URL}}})
	if err := m.Settle(within(t))[0].Err; err == nil || errors.Is(err, errAsksTooMuch) {
		t.Errorf("error = %v", err)
	}
	if n := sent.Load(); n >= limit {
		t.Errorf("it sent %d MiB", n>>20)
	}
}

// The SDK keeps what was last read from each URI, also if it may not be used again. The test is not
// parallel: it measures the heap.
func TestResourcesThatWereReadAreNotKept(t *testing.T) {
	const reads = 8
	m := open(t, Config{Servers: []Server{programServer(t, "x", "big")}})
	ready(t, m)
	read := named(t, m, "mcp_x_read_resource")
	heap := func() uint64 {
		var s runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&s)
		return s.HeapAlloc
	}
	before := heap()
	for i := range reads {
		for range 2 {
			if r := invoke(t, read, fmt.Sprintf(`{"uri":"big:%d"}`, i)).Result; len(r.Text()) < bigResource {
				t.Fatalf("result = %s %.100q", r.Status, r.Text())
			}
		}
	}
	if now := heap(); now > before+reads*bigResource/2 {
		t.Errorf("the heap grew by %d MiB", (now-before)>>20)
	}
}
