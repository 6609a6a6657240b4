package admin

import (
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/jetstream/internal/layout"
)

// Config is the layout of a cell. The zero value means one copy of everything on disk, and no task queues.
type Config struct {
	Memory    bool          // keep everything in memory instead of on disk
	Replicas  int           // copies of everything; 0: 1
	Queues    []QueueConfig // task queues to create; none: each worker creates its own
	Restoring bool          // complete a cell that is being restored; otherwise Provision returns ErrRestoring for it
}

// QueueConfig configures a class of tools with its own queue of tasks.
type QueueConfig struct {
	Name        string
	Concurrency int           // calls running at once, over all workers; 0: unchanged, 1,000 for a new queue
	AckWait     time.Duration // a worker's lease on a call; 0: unchanged, 30 s for a new queue
}

const maxReplicas = 5 // the server's own limit

func (c Config) validate() error {
	if c.Replicas < 0 || c.Replicas > maxReplicas {
		return fmt.Errorf("%d replicas: use 1 to %d, or 0 for 1", c.Replicas, maxReplicas)
	}
	for _, q := range c.Queues {
		if err := q.validate(); err != nil {
			return err
		}
	}
	return nil
}

func (q QueueConfig) validate() error {
	switch {
	case !content.IsToken(q.Name):
		return fmt.Errorf("queue %q: use 1 to 128 letters, digits, '-' or '_'", q.Name)
	case q.Concurrency < 0 || q.AckWait < 0:
		return fmt.Errorf("queue %s: concurrency %d and ack wait %v must not be negative", q.Name, q.Concurrency, q.AckWait)
	}
	return nil
}

// Row is one stream of a cell, as Provision creates it.
type Row struct {
	Name   string // the same in every cell, such as JOURNAL
	Stream string // on the server

	config    jetstream.StreamConfig
	consumers []object
}

// Topology returns the streams that Provision creates, buckets included.
func Topology(namespace string, cfg Config) []Row {
	n := names{layout.New(namespace)}
	var rows []Row
	for _, s := range n.Streams() {
		r := Row{Name: s.Name, Stream: s.Config.Name, config: s.Config}
		r.config.Replicas = max(cfg.Replicas, 1)
		r.config.Storage = jetstream.FileStorage
		if cfg.Memory {
			r.config.Storage = jetstream.MemoryStorage
		}
		for _, c := range s.Consumers {
			r.consumers = append(r.consumers, consumerOf(r.Stream, c))
		}
		if r.Stream == n.TasksStream() {
			for _, q := range cfg.Queues {
				r.consumers = append(r.consumers, n.queue(q))
			}
		}
		rows = append(rows, r)
	}
	return rows
}

func (n names) drivers() object { return consumerOf(n.RunStream(), n.Drivers()) }

func (n names) queue(q QueueConfig) object {
	config := n.Queue(q.Name)
	var free []string
	if q.AckWait == 0 {
		free = append(free, "ack_wait")
	} else {
		config.AckWait = q.AckWait
	}
	if q.Concurrency == 0 {
		free = append(free, "max_ack_pending")
	} else {
		config.MaxAckPending = q.Concurrency
	}
	return consumerOf(n.TasksStream(), config, free...)
}
