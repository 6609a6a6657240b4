package openai

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/internal/provider"
	"github.com/turnlog/turnlog/model"
)

// stream builds a reply from events.
type stream interface {
	provider.Handler
	// finish returns the reply.
	finish() (model.Reply, error)
	// used returns the usage so far.
	used() content.Usage
}

// exchange makes one request.
func (m *Model) exchange(ctx context.Context, path string, params any, s stream) (model.Reply, error) {
	var reply model.Reply
	err := provider.Stream(ctx, m.client, m.cfg.BaseURL+path, m.header(), params, s)
	if err == nil {
		reply, err = s.finish()
	}
	if status, ok := errors.AsType[*provider.StatusError](err); ok {
		e := parseError(status.Body).failure(status.Status)
		e.RetryAfter = status.RetryAfter
		err = e
	}
	if err != nil {
		return model.Reply{}, provider.Failure(ctx, err, s.used(), m.cfg.APIKey)
	}
	return reply, nil
}

// lenient decodes a JSON object and ignores fields of an unexpected type, because
// servers differ and few fields matter.
func lenient(data []byte, into any) bool {
	if !bytes.HasPrefix(bytes.TrimSpace(data), []byte("{")) {
		return false
	}
	err := json.Unmarshal(data, into)
	_, odd := errors.AsType[*json.UnmarshalTypeError](err)
	return err == nil || odd
}
