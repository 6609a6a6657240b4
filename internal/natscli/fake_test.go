package natscli

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"
)

// fakeConn is the server's end of a connection to a scripted server.
type fakeConn struct {
	conn net.Conn
	r    *bufio.Reader
}

func (c *fakeConn) readLine() string {
	line, _ := c.r.ReadString('\n') // "" when the client hangs up
	return strings.TrimSpace(line)
}

func (c *fakeConn) write(s string) { _, _ = c.conn.Write([]byte(s)) }

// listen accepts connections on a loopback port one at a time, passes each to handle
// and then closes it. It returns the URL.
func listen(t *testing.T, handle func(*fakeConn)) string {
	t.Helper()
	var lc net.ListenConfig
	l, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
			handle(&fakeConn{conn, bufio.NewReader(conn)})
			_ = conn.Close()
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		wg.Wait()
	})
	return "nats://" + l.Addr().String()
}

// hello is the CONNECT message of a client.
type hello struct {
	User string `json:"user"`
	Pass string `json:"pass"`
	Auth string `json:"auth_token"`
	NKey string `json:"nkey"`
	JWT  string `json:"jwt"`
	Sig  string `json:"sig"`
	Name string `json:"name"`
}

// greet returns the URL of a server that sends a nonce, accepts every client and
// passes on its CONNECT message.
func greet(t *testing.T) (string, <-chan hello) {
	t.Helper()
	said := make(chan hello, 1) // one client per test
	url := listen(t, func(c *fakeConn) {
		c.write(`INFO {"server_id":"x","version":"2.15.2","proto":1,"headers":true,"nonce":"abc","max_payload":1048576}` + "\r\n")
		for {
			switch line := c.readLine(); {
			case line == "":
				return
			case line == "PING":
				c.write("PONG\r\n")
			case strings.HasPrefix(line, "CONNECT "):
				var h hello
				if err := json.Unmarshal([]byte(line[len("CONNECT "):]), &h); err != nil {
					h.Name = fmt.Sprint(err)
				}
				said <- h
			}
		}
	})
	return url, said
}

// hear returns the CONNECT message that the server of greet received.
func hear(t *testing.T, said <-chan hello) hello {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	select {
	case h := <-said:
		return h
	case <-ctx.Done():
		t.Fatal("the client sent no CONNECT")
		return hello{}
	}
}
