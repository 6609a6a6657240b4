package natsservice

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/internal/tracing"
	"github.com/turnlog/turnlog/tool"
)

// progressHeader marks an answer as progress. Its value is the share of the work that is done, if it is a number.
const progressHeader = "Turnlog-Progress"

// endpoint is a tool. It outlives the service's offers.
type endpoint struct {
	service *service
	subject string
	spec    tool.Spec
}

func (s *service) cancelSubject() string { return s.name + ".cancel" }

// Spec returns the tool's spec.
func (e *endpoint) Spec() tool.Spec { return e.spec }

// Call sends the request, and sends it again as far as the tool's effects allow.
func (e *endpoint) Call(ctx context.Context, c tool.Call) (tool.Output, error) {
	if c.Progress == nil {
		c.Progress = func(string, float64) {}
	}
	out, err := tool.Attempt(ctx, e.spec.Effects, func(ctx context.Context) (tool.Output, error) { return e.send(ctx, c) })
	if f, ok := errors.AsType[*tool.Error](err); ok && f.Code == tool.CodeUnavailable {
		e.service.watch.Hurry() // it may be gone
	}
	return out, err
}

// send sends one request and waits for its outcome.
func (e *endpoint) send(ctx context.Context, c tool.Call) (tool.Output, error) {
	nc := e.service.all.Conn
	if most := nc.MaxPayload(); int64(len(c.Input)) > most {
		return tool.Output{}, tool.Failure(tool.CodeInvalidArguments, "%d bytes, and the server takes at most %d: pass the name of a file instead", len(c.Input), most)
	}
	inbox, err := listen(nc)
	if err != nil {
		return tool.Output{}, e.interrupted(false, err)
	}
	defer inbox.close()
	m := nats.NewMsg(e.subject)
	m.Reply, m.Data = inbox.sub.Subject, c.Input
	headers := tool.Headers(c)
	maps.Copy(headers, tracing.Headers(ctx))
	for name, value := range headers {
		m.Header.Set(name, value)
	}
	if err := nc.PublishMsg(m); err != nil {
		return tool.Output{}, e.interrupted(false, err)
	}
	var gone time.Time // when instances stopped answering
	for {
		answer, err := inbox.next(ctx, e.service.all.every)
		switch {
		case errors.Is(err, nats.ErrNoResponders):
			return tool.Output{}, e.interrupted(false, errNoInstance)
		case ctx.Err() != nil:
			e.cancel(c.IdempotencyKey)
			return tool.Output{}, context.Cause(ctx)
		case errors.Is(err, context.DeadlineExceeded):
			if gone = e.service.since(gone); gone.IsZero() || time.Since(gone) < e.service.all.lost {
				continue
			}
			return tool.Output{}, e.interrupted(true, errNoInstance)
		case err != nil:
			return tool.Output{}, e.interrupted(true, err)
		}
		if share, ok := answer.Header[progressHeader]; ok {
			done, _ := strconv.ParseFloat(share[0], 64) // zero: it is not known
			c.Progress(string(answer.Data), done)
			continue
		}
		return e.outcome(answer)
	}
}

// since returns when the instances of the service stopped answering, or zero if one answers. before is its last result.
func (s *service) since(before time.Time) time.Time {
	switch _, err := s.watch.Offer(); {
	case !errors.Is(err, errNoInstance):
		return time.Time{}
	case before.IsZero():
		return time.Now()
	}
	return before
}

// cancel tells all instances that a call has ended.
func (e *endpoint) cancel(key string) {
	m := nats.NewMsg(e.service.cancelSubject())
	m.Header.Set(tool.HeaderKey, key)
	_ = e.service.all.Conn.PublishMsg(m) // no answer is expected
}

func (e *endpoint) interrupted(sent bool, err error) error {
	return &tool.InterruptedError{Sent: sent, Err: fmt.Errorf("%s: %w", e.service.name, err)}
}

// outcome returns the output, or the error, of an answer.
func (e *endpoint) outcome(m *nats.Msg) (tool.Output, error) {
	if why, code := m.Header.Get(micro.ErrorHeader), m.Header.Get(micro.ErrorCodeHeader); why != "" || code != "" {
		if code = "service_" + code; !content.IsToken(code) {
			code = tool.CodeFailed
		}
		return tool.Output{}, tool.Failure(code, "%s: %s", e.service.name, why)
	}
	kind := m.Header.Get("Content-Type")
	if kind == "" && json.Valid(m.Data) {
		kind = "application/json"
	}
	return tool.Answer(kind, m.Data), nil
}
