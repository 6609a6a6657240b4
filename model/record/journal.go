package record

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"iter"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/events/journal"
	"github.com/turnlog/turnlog/loop"
	"github.com/turnlog/turnlog/model"
)

// ErrNoReplies says that a journal has no reply or failure of a model.
var ErrNoReplies = errors.New("no model has answered in this session yet")

// FromJournal returns a cassette with the replies and failures that a session's journal records.
//
// A journal has digests instead of the descriptions and schemas of tools, and instead of files. So in such a
// cassette, requests match even with other tools, and a file matches by its bytes or its digest. Replies that
// were cut short are left out.
func FromJournal(records iter.Seq2[journal.Record, error], cfg Config) ([]byte, error) {
	r := reader{form: &Model{secrets: secrets(cfg.Secrets), tape: tape{header: header{Version: version, WithoutTools: true}}}}
	for rec, err := range records {
		if err == nil {
			err = rec.Err
		}
		if err == nil {
			err = r.add(rec.Entry)
		}
		if err != nil {
			return nil, err
		}
	}
	t := &r.form.tape
	if len(t.exchanges) == 0 {
		return nil, ErrNoReplies
	}
	data, err := t.bytes()
	if err != nil {
		return nil, err
	}
	return conceal(data, r.form.secrets), nil
}

// reader folds a journal and keeps the request of the running model call.
type reader struct {
	form  *Model
	state *loop.State
	asked request
	call  loop.CallModel
}

func (r *reader) add(e events.Entry) error {
	if r.state == nil {
		r.state = loop.New(e.Session)
	}
	var reply *exchange
	for _, ev := range e.Events {
		switch ev := ev.(type) { //nolint:gochecksumtype // the others are no answers
		case events.ReplyRecorded:
			if r.runs(ev.Turn, ev.Round, ev.Attempt) && !ev.Interrupted {
				reply = &exchange{Reply: &model.Reply{Items: content.DetachItems(ev.Items), FinishReason: ev.FinishReason, Model: ev.Model, ResponseID: ev.ResponseID}}
				r.form.tape.header.Model = ev.Model
			}
		case events.UsageUpdated:
			if reply != nil {
				reply.Reply.Usage = ev.Usage
			}
		case events.ModelCallFailed:
			if r.runs(ev.Turn, ev.Round, ev.Attempt) && ev.Class != content.ClassLost { // a lost host is not an answer
				r.keep(&exchange{Failure: &model.Error{Class: ev.Class, Code: ev.Code, Message: ev.Message, RetryAfter: ev.RetryAfter}})
			}
		}
	}
	if reply != nil {
		r.keep(reply)
	}
	r.state.Fold(e)
	return r.ask()
}

// runs reports whether an answer belongs to the call whose request is known.
func (r *reader) runs(turn content.TurnID, round, attempt int) bool {
	return r.asked.key != "" && r.call.Turn == turn && r.call.Round == round && r.call.Attempt == attempt
}

func (r *reader) keep(x *exchange) {
	x.Key, x.Attempt, x.Request = r.asked.key, r.call.Attempt, r.asked.canonical
	r.form.tape.add(*x)
}

// ask keeps the request of the model call that the session owes.
func (r *reader) ask() error {
	for _, e := range loop.Pending(r.state) {
		if c, ok := e.(loop.CallModel); ok && c.ModelCall != r.call.ModelCall {
			asked, err := r.form.canonical(model.Request{Transcript: r.state.Transcript[:c.TranscriptLen], Schema: c.Schema})
			if err != nil {
				return fmt.Errorf("%s at %d: %w", r.state.Session, r.state.Seq, err)
			}
			r.call, r.asked = c, asked
		}
	}
	return nil
}

// byDigest replaces the bytes of files with the digests that a journal has.
func byDigest(items []content.Item) {
	for i := range items {
		for j := range items[i].Parts {
			p := &items[i].Parts[j]
			if p.Media == nil || len(p.Media.Bytes) == 0 {
				continue
			}
			sum := sha256.Sum256(p.Media.Bytes)
			m := *p.Media
			m.Bytes, m.URI = nil, content.BlobURI(hex.EncodeToString(sum[:]))
			p.Media = &m
		}
	}
}
