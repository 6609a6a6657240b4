package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"golang.org/x/sync/errgroup"

	"github.com/turnlog/turnlog/jetstream"
	"github.com/turnlog/turnlog/jetstream/admin"
)

// floor performs the JetStream operations of a round trip over the client's core
// protocol, on streams provisioned like a deployment's.
type floor struct {
	ns             string
	stream         string // of tasks
	driver, worker *nats.Conn
	messages       floorMessages
}

func (b bench) floor(ctx context.Context, connect dial) (measured, error) {
	cell, err := openCell(connect)
	if err != nil {
		return measured{}, err
	}
	if err := admin.Of(cell).Provision(ctx, b.config()); err != nil {
		return measured{}, err
	}
	fl := floor{ns: jetstream.DefaultNamespace, stream: "TURNLOG_TASKS"}
	if fl.messages, err = newFloorMessages(); err != nil {
		return measured{}, err
	}
	if fl.driver, err = connect(); err != nil {
		return measured{}, err
	}
	if fl.worker, err = connect(); err != nil {
		return measured{}, err
	}
	if err := fl.work(ctx, 2*b.sessions); err != nil {
		return measured{}, err
	}
	times := make([][]time.Duration, b.sessions)
	began := time.Now()
	group, ctx := errgroup.WithContext(ctx)
	for i := range b.sessions {
		group.Go(func() (err error) {
			times[i], err = fl.session(ctx, "floor-"+strconv.Itoa(i), b.rounds)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return measured{}, err
	}
	m := measured{took: time.Since(began), trips: b.sessions * b.rounds}
	for _, t := range times {
		m.times = append(m.times, t...)
	}
	return m, nil
}

// session is a driver with no logic: it writes an entry and a task, awaits the result, and
// writes another entry.
func (fl floor) session(ctx context.Context, id string, rounds int) ([]time.Duration, error) {
	results := make(chan *nats.Msg, 4)
	sub, err := fl.driver.ChanSubscribe(fl.ns+".live.cmd."+id+".report", results)
	if err != nil {
		return nil, err
	}
	defer func() { _ = sub.Unsubscribe() }()
	journal := fl.ns + ".journal." + id
	var guard uint64
	times := make([]time.Duration, 0, rounds)
	for r := range rounds {
		began := time.Now()
		if guard, err = fl.entry(ctx, journal, guard, fl.messages.reply); err != nil {
			return nil, err
		}
		task := fmt.Sprintf("%s.task.%s.%s.t1-r%d-c1", fl.ns, queueName, id, r+1)
		if _, err := store(ctx, fl.driver, &nats.Msg{Subject: task, Data: fl.messages.task}); err != nil {
			return nil, err
		}
		select {
		case <-results:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
		if guard, err = fl.entry(ctx, journal, guard, fl.messages.result); err != nil {
			return nil, err
		}
		times = append(times, time.Since(began))
	}
	return times, nil
}

func (fl floor) entry(ctx context.Context, subject string, guard uint64, payload []byte) (uint64, error) {
	return store(ctx, fl.driver, fl.messages.entry(subject, strconv.FormatUint(guard, 10), payload))
}

// work is a worker with no logic: it answers each task with a result, then acks it.
func (fl floor) work(ctx context.Context, pulls int) error {
	inbox := nats.NewInbox()
	next := "$JS.API.CONSUMER.MSG.NEXT." + fl.stream + ".q_" + queueName
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
			result := &nats.Msg{Subject: fl.ns + ".cmd." + id + ".report", Data: fl.messages.report}
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
		Seq   uint64 `json:"seq"`
		Error *struct {
			Description string `json:"description"`
		} `json:"error"`
	}
	if err := json.Unmarshal(resp.Data, &ack); err != nil {
		return 0, fmt.Errorf("publish %s: %w", m.Subject, err)
	}
	if ack.Error != nil {
		return 0, fmt.Errorf("publish %s: %w", m.Subject, errors.New(ack.Error.Description))
	}
	return ack.Seq, nil
}
