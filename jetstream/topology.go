package jetstream

import (
	"fmt"
	"slices"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/turnlog/turnlog/content"
)

// Config says how a cell is laid out. The zero value is one copy of everything,
// on disk, and no task queues.
type Config struct {
	Memory   bool          // keep everything in memory; false: on disk
	Replicas int           // copies of everything; 0: 1
	Queues   []QueueConfig // task queues to create; none: each worker creates its own
}

// QueueConfig is a class of tools with its own queue of tasks.
type QueueConfig struct {
	Name        string
	Concurrency int           // calls that run at once, over all workers; 0: as it is, 1,000 for a new queue
	AckWait     time.Duration // a worker's lease on a call; 0: as it is, 30 s for a new queue
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

// Row describes one stream of a cell, as Provision creates it.
type Row struct {
	Name      string // what it is called here, for example JOURNAL
	Stream    string // what it is called on the server
	Subjects  []string
	Live      string    // where the server publishes what was stored, for subjects below it; "" for nowhere
	Settings  []Setting // all that is not the server's default, but for what Config says
	Consumers []ConsumerRow

	stream    jetstream.StreamConfig
	consumers []durable
}

// ConsumerRow describes a durable consumer of a stream.
type ConsumerRow struct {
	Name     string
	Filter   string // "" for all subjects of the stream
	Settings []Setting
}

// Topology lists the streams of a cell, buckets included. It is what Provision
// creates, and what subjects.md is compared with.
func Topology(namespace string, cfg Config) []Row {
	n := newNames(namespace)
	rows := []Row{
		{Name: "JOURNAL", stream: n.journalConfig()},
		{Name: "INBOX", stream: n.inboxConfig()},
		{Name: "TIMERS", stream: n.timersConfig()},
		{Name: "RUN", stream: n.onePerSubject(n.runStream(), n.allRuns()), consumers: []durable{n.drivers()}},
		{Name: "TASKS", stream: n.onePerSubject(n.tasksStream(), n.allTasks())},
		{Name: "CATALOG", stream: bucketConfig(n.catalogBucket(), expiryMarkers)},
		{Name: "NODES", stream: bucketConfig(n.nodesBucket(), expiryMarkers)},
		{Name: "SNAPSHOTS", stream: bucketConfig(n.snapBucket(), 0)},
		{Name: "APPROVALS", stream: bucketConfig(n.approvalsBucket(), expiryMarkers)},
		{Name: "DEAD", stream: bucketConfig(n.deadBucket(), expiryMarkers)},
		{Name: "AGENTS", stream: bucketConfig(n.agentsBucket(), 0)},
		{Name: "MEMORY", stream: bucketConfig(n.memoryBucket(), expiryMarkers)},
		{Name: "SCHEDULES", stream: n.schedulesConfig()},
		{Name: "BLOBS", stream: n.blobsConfig()},
	}
	for _, q := range cfg.Queues {
		tasks := &rows[4]
		tasks.consumers = append(tasks.consumers, n.queue(q))
	}
	for i := range rows {
		rows[i].complete(cfg)
	}
	return rows
}

// complete applies cfg and fills in what can be read from the stream's settings.
func (r *Row) complete(cfg Config) {
	s := &r.stream
	s.Replicas = max(cfg.Replicas, 1)
	s.Storage = jetstream.FileStorage
	if cfg.Memory {
		s.Storage = jetstream.MemoryStorage
	}
	s.Duplicates = dedupeWindow
	r.Stream, r.Subjects = s.Name, s.Subjects
	if s.RePublish != nil {
		r.Live = s.RePublish.Destination
	}
	plain := streamSettings(jetstream.StreamConfig{})
	for i, s := range streamSettings(*s) {
		if s != plain[i] && !slices.Contains([]string{"subjects", "republish", "storage", "num_replicas"}, s.Name) {
			r.Settings = append(r.Settings, s)
		}
	}
	for _, d := range r.consumers {
		row := ConsumerRow{Name: d.config.Durable, Filter: d.config.FilterSubject}
		for _, s := range consumerSettings(d.config) {
			if s.Name != "filter_subject" {
				row.Settings = append(row.Settings, s)
			}
		}
		r.Consumers = append(r.Consumers, row)
	}
}
