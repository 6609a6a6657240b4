package embedded

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"go.uber.org/zap/zaptest"
)

// heldStore is the environment variable with the directory that a copy of this test binary locks
// until it is killed.
const heldStore = "EMBEDDED_TEST_HOLD_STORE"

func TestMain(m *testing.M) {
	if dir := os.Getenv(heldStore); dir != "" {
		holdStore(dir)
	}
	PrepareForSynctest()
	os.Exit(m.Run())
}

// holdStore runs a server on dir until the process is killed. It reports the start on stdout.
func holdStore(dir string) {
	if _, err := Start(context.Background(), WithStore(dir)); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println("holding")
	select {}
}

// run starts a server that is closed when the test ends.
func run(t *testing.T, opts ...Option) *Server {
	t.Helper()
	s, err := Start(t.Context(), append([]Option{WithLogger(zaptest.NewLogger(t))}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

func connect(t *testing.T, s *Server) *nats.Conn {
	t.Helper()
	nc, err := s.Connect()
	if err != nil {
		t.Fatal(err)
	}
	return nc
}

// answer holds the fields of a JetStream API reply that these tests read.
type answer struct {
	Error *struct {
		Code        int    `json:"err_code"`
		Description string `json:"description"`
	} `json:"error"`
	Seq   uint64 `json:"seq"`
	State struct {
		Messages uint64 `json:"messages"`
	} `json:"state"`
}

// ask sends a request and returns the answer, or the error in it.
func ask(nc *nats.Conn, subject, body string) (answer, error) {
	var a answer
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	msg, err := nc.RequestWithContext(ctx, subject, []byte(body)) // with a context: see PrepareForSynctest
	if err != nil {
		return a, fmt.Errorf("request %s: %w", subject, err)
	}
	if err := json.Unmarshal(msg.Data, &a); err != nil {
		return a, fmt.Errorf("answer of %s: %w: %s", subject, err, msg.Data)
	}
	if a.Error != nil {
		return a, fmt.Errorf("answer of %s: %d %s", subject, a.Error.Code, a.Error.Description)
	}
	return a, nil
}

func mustAsk(t *testing.T, nc *nats.Conn, subject, body string) answer {
	t.Helper()
	a, err := ask(nc, subject, body)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// createStream creates stream S on subject s.
func createStream(t *testing.T, nc *nats.Conn) {
	t.Helper()
	mustAsk(t, nc, "$JS.API.STREAM.CREATE.S", `{"name":"S","subjects":["s"],"storage":"file"}`)
}
