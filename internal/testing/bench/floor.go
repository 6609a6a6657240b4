package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"golang.org/x/sync/errgroup"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/jetstream"
	"github.com/turnlog/turnlog/jetstream/admin"
)

// sample is what a round trip stores in the journal: a reply with a call, and the result.
type sample struct {
	reply, result []byte
	header        nats.Header // of the reply
}

// sampleOf returns the last round trip of a session.
func sampleOf(ctx context.Context, cell *jetstream.Cell, id content.SessionID) (s sample, err error) {
	last, err := cell.Journal().Last(ctx, id)
	if err != nil {
		return s, err
	}
	for rec, err := range cell.Journal().Read(ctx, id, last.Seq-min(last.Seq, 10)) {
		if err != nil {
			return s, err
		}
		switch kinds := fmt.Sprint(rec.Entry.Kinds()); {
		case strings.Contains(kinds, string(events.KindToolDispatched)):
			s.reply, s.header = rec.Payload, nats.Header{
				"Turnlog-Seq": {strconv.FormatUint(rec.Seq, 10)}, "Turnlog-Hash": {rec.Hash.String()},
			}
		case strings.Contains(kinds, string(events.KindToolResultReceived)):
			s.result = rec.Payload
		}
	}
	return s, nil
}

// leanSize is the size of the lean floor's entries.
const leanSize = 400

// minimal returns the smallest possible entries of a round trip, without headers.
func minimal() sample {
	entry := bytes.Repeat([]byte("x"), leanSize)
	return sample{reply: entry, result: entry}
}

// Sizes of the other messages of a round trip with a small call.
const (
	taskSize   = 200
	reportSize = 250
)

// floor performs the JetStream operations of a round trip over the client's core
// protocol, on streams provisioned like a deployment's.
type floor struct {
	ns             string
	driver, worker *nats.Conn
	stored         sample
}

func (b bench) floor(ctx context.Context, m *meter, stored sample) error {
	cell, err := jetstream.Open(m.conns[0], "")
	if err != nil {
		return err
	}
	if err := admin.Of(cell).Provision(ctx, b.config()); err != nil {
		return err
	}
	fl := floor{ns: cell.Namespace(), driver: m.conns[1], worker: m.conns[2], stored: stored}
	if err := fl.work(ctx, 2*b.Sessions); err != nil {
		return err
	}
	if err := m.start(); err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	for i := range b.Sessions {
		group.Go(func() error { return fl.session(ctx, "floor-"+strconv.Itoa(i), b.Rounds, m) })
	}
	if err := group.Wait(); err != nil {
		return err
	}
	return m.stop()
}

// session is a driver with no logic: it writes an entry and a task, awaits the result, and
// writes another entry.
func (fl floor) session(ctx context.Context, id string, rounds int, m *meter) error {
	results := make(chan *nats.Msg, 4)
	sub, err := fl.driver.ChanSubscribe(fl.ns+".live.cmd."+id+".report", results)
	if err != nil {
		return err
	}
	defer func() { _ = sub.Unsubscribe() }()
	journal := fl.ns + ".journal." + id
	var guard uint64
	for r := range rounds {
		began := time.Now()
		if guard, err = fl.entry(ctx, journal, guard, fl.stored.reply); err != nil {
			return err
		}
		task := fmt.Sprintf("%s.task.%s.%s.t1-r%d-c1", fl.ns, queueName, id, r+1)
		if _, err := store(ctx, fl.driver, &nats.Msg{Subject: task, Data: fl.stored.reply[:taskSize]}); err != nil {
			return err
		}
		select {
		case <-results:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		if guard, err = fl.entry(ctx, journal, guard, fl.stored.result); err != nil {
			return err
		}
		m.trip(began)
	}
	return nil
}

// entry stores the bytes of an entry.
func (fl floor) entry(ctx context.Context, subject string, guard uint64, payload []byte) (uint64, error) {
	header := nats.Header{}
	maps.Copy(header, fl.stored.header)
	header["Nats-Expected-Last-Subject-Sequence"] = []string{strconv.FormatUint(guard, 10)}
	return store(ctx, fl.driver, &nats.Msg{Subject: subject, Header: header, Data: payload})
}

// work is a worker with no logic: it answers each task with a result, then acks it.
func (fl floor) work(ctx context.Context, pulls int) error {
	inbox := nats.NewInbox()
	next := "$JS.API.CONSUMER.MSG.NEXT.TURNLOG_TASKS.q_" + queueName
	pull := func(n int) error {
		req := fmt.Appendf(nil, `{"batch":%d}`, n)
		return fl.worker.PublishRequest(next, inbox, req)
	}
	_, err := fl.worker.Subscribe(inbox, func(m *nats.Msg) {
		if m.Reply == "" {
			return
		}
		go func() {
			id := strings.Split(m.Subject, ".")[3] // <ns>.task.<queue>.<session>.<place>
			result := &nats.Msg{Subject: fl.ns + ".cmd." + id + ".report", Data: fl.stored.result[:reportSize]}
			if _, err := store(ctx, fl.worker, result); err != nil {
				return
			}
			if _, err := fl.worker.RequestWithContext(ctx, m.Reply, []byte("+ACK")); err != nil {
				return
			}
			_ = pull(1)
		}()
	})
	if err != nil {
		return err
	}
	return pull(pulls)
}

// store stores a message and returns its sequence.
func store(ctx context.Context, nc *nats.Conn, m *nats.Msg) (uint64, error) {
	resp, err := nc.RequestMsgWithContext(ctx, m)
	if err != nil {
		return 0, fmt.Errorf("publish %s: %w", m.Subject, err)
	}
	var ack struct {
		Seq   uint64         `json:"seq"`
		Error *nats.APIError `json:"error"`
	}
	if err := json.Unmarshal(resp.Data, &ack); err != nil {
		return 0, fmt.Errorf("publish %s: %w", m.Subject, err)
	}
	if ack.Error != nil {
		return 0, fmt.Errorf("publish %s: %w", m.Subject, ack.Error)
	}
	return ack.Seq, nil
}
