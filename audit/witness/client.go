package witness

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/turnlog/turnlog/audit/headlog"
)

// Timeout bounds one request to a witness.
const Timeout = 10 * time.Second

// Client asks one witness for cosignatures on the checkpoints of one log. It is not safe for concurrent use.
type Client struct {
	url  *url.URL
	key  note.Verifier
	http *http.Client

	size int64 // size of the last checkpoint that the witness cosigned, as far as known
}

// NewClient returns a client of the witness at a URL. It appends the paths of the protocol to the URL.
func NewClient(address, key string, via *http.Client) (*Client, error) {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, fmt.Errorf("witness %q: use a URL such as https://witness.example/", address)
	}
	v, err := headlog.ParseWitnessKey(key)
	if err != nil {
		return nil, fmt.Errorf("witness %s: %w", u.Redacted(), err)
	}
	return &Client{url: u, key: v, http: via}, nil
}

// Name returns the name of the witness's key.
func (c *Client) Name() string { return c.key.Name() }

// RefusedError is returned if a witness does not cosign a checkpoint.
type RefusedError struct {
	Status int   // of HTTP
	Size   int64 // with status 409: size of the last checkpoint that the witness cosigned, larger than this one
	Reason string
}

// Error says what the witness answered.
func (e *RefusedError) Error() string {
	if e.Status == http.StatusConflict {
		return fmt.Sprintf("the witness has already cosigned size %d", e.Size)
	}
	return fmt.Sprintf("the witness refuses: %d %s: %s", e.Status, http.StatusText(e.Status), e.Reason)
}

// Diverged reports whether the witness may have seen another history of the log.
func (e *RefusedError) Diverged() bool {
	return e.Status == http.StatusConflict || e.Status == http.StatusUnprocessableEntity
}

// Cosign returns the signature line of the witness for a checkpoint, verified. prove returns the proof that the
// checkpoint continues a size.
func (c *Client) Cosign(ctx context.Context, signed []byte, prove func(old int64) (tlog.TreeProof, error)) ([]byte, error) {
	line, err := c.cosign(ctx, signed, prove)
	if err != nil {
		return nil, fmt.Errorf("witness %s: %w", c.Name(), err)
	}
	return line, nil
}

func (c *Client) cosign(ctx context.Context, signed []byte, prove func(old int64) (tlog.TreeProof, error)) ([]byte, error) {
	is, err := headlog.Unverified(signed)
	if err != nil {
		return nil, err
	}
	for tries := 0; ; tries++ {
		old := min(c.size, is.N)
		proof, err := prove(old)
		if err != nil {
			return nil, err
		}
		code, body, err := c.do(ctx, http.MethodPost, addPath, request(old, proof, signed))
		switch {
		case err != nil:
			return nil, err
		case code == http.StatusOK:
			line, err := c.verified(signed, body)
			if err == nil {
				c.size = is.N
			}
			return line, err
		case code != http.StatusConflict:
			return nil, &RefusedError{Status: code, Reason: strings.TrimSpace(string(body[:min(len(body), 300)]))}
		}
		size, err := parseSize(body)
		if err != nil {
			return nil, err
		}
		if size > is.N || tries > 0 {
			return nil, &RefusedError{Status: code, Size: size}
		}
		c.size = size
	}
}

// verified returns the witness's signature from its answer.
func (c *Client) verified(signed, lines []byte) ([]byte, error) {
	text, _, _ := bytes.Cut(signed, []byte("\n\n"))
	n, err := note.Open(fmt.Appendf(nil, "%s\n\n%s", text, lines), note.VerifierList(c.key))
	if err != nil {
		return nil, fmt.Errorf("the answer is not a cosignature: %w", err)
	}
	s := n.Sigs[0]
	return fmt.Appendf(nil, "— %s %s\n", s.Name, s.Base64), nil
}

// Last returns the last checkpoint of a log that the witness cosigned, verified with the log's key. It is nil
// if there is none.
func (c *Client) Last(ctx context.Context, log note.Verifier) (*headlog.Checkpoint, error) {
	code, body, err := c.do(ctx, http.MethodGet, "/"+originHash(log.Name())+"/checkpoint", nil)
	if err == nil && code != http.StatusOK && code != http.StatusNotFound {
		err = &RefusedError{Status: code}
	}
	if err != nil || code == http.StatusNotFound {
		return nil, err
	}
	at, err := headlog.Open(body, log)
	if err != nil {
		return nil, fmt.Errorf("witness %s: its last checkpoint: %w", c.Name(), err)
	}
	return &at, nil
}

func (c *Client) do(ctx context.Context, method, path string, body []byte) (code int, answer []byte, err error) {
	ctx, cancel := context.WithTimeout(ctx, Timeout)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, method, c.url.JoinPath(path).String(), bytes.NewReader(body))
	if err != nil {
		return 0, nil, fmt.Errorf("request: %w", err)
	}
	resp, err := c.http.Do(r)
	if err != nil {
		return 0, nil, fmt.Errorf("request: %w", err)
	}
	answer, err = io.ReadAll(io.LimitReader(resp.Body, maxBody))
	if err = errors.Join(err, resp.Body.Close()); err != nil {
		return 0, nil, fmt.Errorf("answer: %w", err)
	}
	return resp.StatusCode, answer, nil
}
