package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"golang.org/x/sync/errgroup"

	"github.com/turnlog/turnlog/jetstream"
)

// floor does by hand, over the client's core protocol, what a round trip needs of
// JetStream, on streams provisioned like a deployment's.
type floor struct {
	ns             string
	stream         string // of tasks
	driver, worker *nats.Conn
	messages       floorMessages
}

func benchFloor(ctx context.Context, f benchFlags, connect dial) (measured, error) {
	cell, err := openCell(connect)
	if err != nil {
		return measured{}, err
	}
	if err := cell.Provision(ctx, benchConfig(f)); err != nil {
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
	if err := fl.work(ctx, 2*f.sessions); err != nil {
		return measured{}, err
	}
	times := make([][]time.Duration, f.sessions)
	began := time.Now()
	group, ctx := errgroup.WithContext(ctx)
	for i := range f.sessions {
		group.Go(func() (err error) {
			times[i], err = fl.session(ctx, "floor-"+strconv.Itoa(i), f.rounds)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return measured{}, err
	}
	m := measured{took: time.Since(began), trips: f.sessions * f.rounds}
	for _, t := range times {
		m.times = append(m.times, t...)
	}
	return m, nil
}

// session is a driver with no logic: entry, task, wait for the result, entry.
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
		task := fmt.Sprintf("%s.task.%s.%s.t1-r%d-c1", fl.ns, benchQueue, id, r+1)
		if _, err := publish(ctx, fl.driver, &nats.Msg{Subject: task, Data: fl.messages.task}); err != nil {
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
	return publish(ctx, fl.driver, fl.messages.entry(subject, strconv.FormatUint(guard, 10), payload))
}

// work is a worker with no logic: each task is answered by a result, then taken
// off the queue, confirmed.
func (fl floor) work(ctx context.Context, pulls int) error {
	inbox := nats.NewInbox()
	next := "$JS.API.CONSUMER.MSG.NEXT." + fl.stream + ".q_" + benchQueue
	pull := func(n int) error {
		req := fmt.Appendf(nil, `{"batch":%d}`, n)
		return fl.worker.PublishRequest(next, inbox, req)
	}
	_, err := fl.worker.Subscribe(inbox, func(m *nats.Msg) {
		if m.Reply == "" {
			return
		}
		go func() {
			var id string
			if _, err := fmt.Sscanf(m.Subject, fl.ns+".task."+benchQueue+".%s", &id); err != nil {
				return
			}
			result := &nats.Msg{Subject: fl.ns + ".cmd." + sessionToken(id) + ".report", Data: fl.messages.report}
			if _, err := publish(ctx, fl.worker, result); err != nil {
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

// sessionToken is the session of what follows the queue in a task's subject.
func sessionToken(rest string) string {
	for i := range rest {
		if rest[i] == '.' {
			return rest[:i]
		}
	}
	return rest
}

// publish stores a message and returns its sequence.
func publish(ctx context.Context, nc *nats.Conn, m *nats.Msg) (uint64, error) {
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
