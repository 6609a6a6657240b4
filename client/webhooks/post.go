package webhooks

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"syscall"
	"time"

	"github.com/turnlog/turnlog/internal/egress"
)

const (
	dialTimeout = 5 * time.Second
	postTimeout = 15 * time.Second // for one attempt
	maxPause    = time.Hour        // the longest pause that an endpoint may ask for
	maxAnswer   = 4 << 10          // bytes of an answer that are read, so that its connection can be reused
)

// newTransport returns a transport to an endpoint. It uses no proxy, which would choose the address instead
// of this process.
func newTransport(e Endpoint) *http.Transport {
	dialer := &net.Dialer{Timeout: dialTimeout, ControlContext: func(_ context.Context, _, address string, _ syscall.RawConn) error {
		return egress.Check(address, e.Private)
	}}
	return &http.Transport{
		DialContext: dialer.DialContext, TLSHandshakeTimeout: dialTimeout, ForceAttemptHTTP2: true,
		MaxIdleConnsPerHost: requests, IdleConnTimeout: time.Minute, MaxResponseHeaderBytes: 64 << 10,
	}
}

// answer is how an endpoint answered a message.
type answer struct {
	failure string        // why it did not accept the message; "": it did
	gone    bool          // it wants no more messages
	pause   time.Duration // it wants no messages for this long
}

// post makes one attempt to deliver a message.
func (c *deliverer) post(ctx context.Context, id string, body []byte) answer {
	keys, err := c.Secrets()
	if err != nil {
		return answer{failure: err.Error()}
	}
	ctx, cancel := context.WithTimeout(ctx, postTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.URL, bytes.NewReader(body))
	if err != nil {
		return answer{failure: err.Error()}
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", "turnlog")
	sign(req.Header, keys, id, time.Now(), body)
	res, err := c.client.Do(req)
	if err != nil {
		return answer{failure: failureOf(err)}
	}
	defer func() { _ = res.Body.Close() }()
	_, _ = io.CopyN(io.Discard, res.Body, maxAnswer) // only the status matters
	out := answer{failure: fmt.Sprintf("the endpoint answered %d", res.StatusCode)}
	switch res.StatusCode / 100 {
	case 2:
		return answer{}
	case 3:
		out.failure += ", and redirects are not followed"
	default:
		out.gone = res.StatusCode == http.StatusGone
		out.pause = pauseOf(res.Header.Get("Retry-After"), time.Now())
	}
	return out
}

// failureOf says why a request failed. It omits the URL, which may contain a token of the receiver.
func failureOf(err error) string {
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Sprintf("the endpoint did not answer within %v", postTimeout)
	}
	if wrapped := errors.Unwrap(err); wrapped != nil { // client.Do returns a *url.Error
		err = wrapped
	}
	return err.Error()
}

// pauseOf parses a Retry-After header: seconds, or a time.
func pauseOf(value string, now time.Time) time.Duration {
	d := time.Duration(0)
	if seconds, err := strconv.ParseUint(value, 10, 32); err == nil {
		d = time.Duration(seconds) * time.Second //nolint:gosec // 32 bits
	} else if at, err := http.ParseTime(value); err == nil {
		d = at.Sub(now)
	}
	return min(max(d, 0), maxPause)
}
