package admin

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/turnlog/turnlog/jetstream/internal/api"
)

// mute is a server that does not answer the first requests on each subject, as during elections, and
// then reports that everything exists. It implements nats.InProcessConnProvider.
type mute struct {
	silent int
}

// InProcessConn returns the client's end of a connection.
func (s mute) InProcessConn() (net.Conn, error) {
	ours, theirs := net.Pipe()
	go s.serve(ours) // until the client closes its end
	return theirs, nil
}

func (s mute) serve(conn net.Conn) {
	defer func() { _ = conn.Close() }()
	answers := make(chan string, 1024) // more than a test asks for: a client may write, under its lock, before it reads
	defer close(answers)
	go func() {
		for a := range answers {
			_, _ = fmt.Fprint(conn, a)
		}
	}()
	answers <- "INFO {\"server_id\":\"M\",\"version\":\"2.15.2\",\"headers\":true,\"max_payload\":1048576}\r\n"
	asked, sid := map[string]int{}, "1"
	for lines := bufio.NewScanner(conn); lines.Scan(); {
		words := strings.Fields(lines.Text())
		switch {
		case len(words) == 0:
		case words[0] == "PING":
			answers <- "PONG\r\n"
		case words[0] == "SUB":
			sid = words[len(words)-1]
		case words[0] == "PUB" && len(words) == 4:
			if asked[words[1]]++; asked[words[1]] > s.silent {
				answers <- fmt.Sprintf("MSG %s %s 2\r\n{}\r\n", words[2], sid)
			}
		}
	}
}

func TestCheckWaitsForAnElection(t *testing.T) {
	t.Parallel()
	for silent, want := range map[int]error{0: nil, 3: nil, 1000: context.DeadlineExceeded} {
		synctest.Test(t, func(t *testing.T) {
			nc, err := nats.Connect("", nats.InProcessServer(mute{silent}))
			must(t, err)
			defer nc.Close()
			start := time.Now()
			err = openCell(t, nc).Check(t.Context())
			if took := time.Since(start); !errors.Is(err, want) || took > 2*api.Patience {
				t.Errorf("Check of a server that misses %d requests = %v after %v, want %v", silent, err, took, want)
			}
		})
	}
}
