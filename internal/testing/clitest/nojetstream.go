package clitest

import (
	"bufio"
	"fmt"
	"net"
	"strings"
	"testing"
)

// NoJetStream starts a server that speaks just enough of the protocol to answer every request
// with "no responders", as a NATS server without JetStream does. It returns its URL.
func NoJetStream(t testing.TB) string {
	t.Helper()
	var lc net.ListenConfig
	l, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go noResponders(conn)
		}
	}()
	return "nats://" + l.Addr().String()
}

// noResponders answers every request with "no responders".
func noResponders(conn net.Conn) {
	defer func() { _ = conn.Close() }()
	say := func(format string, args ...any) { _, _ = fmt.Fprintf(conn, format, args...) }
	say("INFO {\"server_id\":\"X\",\"version\":\"2.15.0\",\"proto\":1,\"headers\":true,\"max_payload\":1048576}\r\n")
	sids := make(map[string]string)
	for in := bufio.NewScanner(conn); in.Scan(); {
		words := strings.Fields(in.Text())
		if len(words) == 0 {
			continue
		}
		switch words[0] {
		case "PING":
			say("PONG\r\n")
		case "SUB":
			sids[strings.TrimSuffix(words[1], "*")] = words[len(words)-1]
		case "PUB", "HPUB":
			refuse(say, sids, words)
		}
	}
}

func refuse(say func(string, ...any), sids map[string]string, words []string) {
	const status = "NATS/1.0 503\r\n\r\n"
	for prefix, sid := range sids {
		if len(words) > 3 && strings.HasPrefix(words[2], prefix) {
			say("HMSG %s %s %d %d\r\n%s\r\n", words[2], sid, len(status), len(status), status)
		}
	}
}
