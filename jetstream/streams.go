package jetstream

import (
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// Settings of the consumers.
const (
	// Every node keeps a pull open for each session that it could still take.
	maxTokenPulls = 1 << 20

	queueConcurrency = 1000
	queueAckWait     = 30 * time.Second
	maxQueuePulls    = 1 << 16 // one per free slot of a worker
)

// Settings of the streams.
const (
	// No message of a cell carries an id for the server to deduplicate by: a
	// guessed one would suppress somebody else's message. This is the smallest
	// window that the server takes.
	dedupeWindow = 100 * time.Millisecond

	// A reader that was cut off for less than this still sees that a key expired.
	expiryMarkers = 5 * time.Minute
)

func (n names) journalConfig() jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name:        n.journalStream(),
		Subjects:    []string{n.allJournals()},
		Compression: jetstream.S2Compression,
		AllowDirect: true,
		RePublish:   n.republish("journal"),
	}
}

// inboxConfig is plain on purpose. With schedules a purge of handled commands
// would delete pending ones, with roll-ups a client could wipe the commands of
// everybody, and direct gets may be answered by a replica that lags.
func (n names) inboxConfig() jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name:      n.inboxStream(),
		Subjects:  []string{n.allCmds()},
		RePublish: n.republish("cmd"),
	}
}

func (n names) timersConfig() jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name:              n.timersStream(),
		Subjects:          []string{n.allTimers(), n.allDue()},
		AllowMsgSchedules: true,
		AllowRollup:       true, // schedules need it
		RePublish:         n.republish("due"),
	}
}

// schedulesConfig keeps of each schedule itself, its last firing that nobody has
// handled, and what became of the one before: what was missed is one firing.
func (n names) schedulesConfig() jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name:              n.schedulesStream(),
		Subjects:          []string{n.schedule("*"), n.fired("*"), n.outcome("*")},
		MaxMsgsPerSubject: 1,
		AllowMsgSchedules: true,
		AllowRollup:       true, // schedules need it
		RePublish:         n.republish("fired"),
	}
}

func (n names) republish(kind string) *jetstream.RePublish {
	source := n.ns + "." + kind + ".>"
	return &jetstream.RePublish{Source: source, Destination: n.live(source)}
}

// onePerSubject is a work queue that refuses a message for a subject which has
// one, waiting or being worked on.
func (n names) onePerSubject(stream, subjects string) jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name:                 stream,
		Subjects:             []string{subjects},
		Retention:            jetstream.WorkQueuePolicy,
		MaxMsgsPerSubject:    1,
		Discard:              jetstream.DiscardNew,
		DiscardNewPerSubject: true,
	}
}

// bucketConfig is a key-value bucket as every client of NATS makes it. With
// markers its keys may expire, and what expired is seen to.
func bucketConfig(bucket string, markers time.Duration) jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name:                   kvStream(bucket),
		Subjects:               []string{kvKey(bucket, ">")},
		MaxMsgsPerSubject:      1,
		Discard:                jetstream.DiscardNew,
		AllowRollup:            true,
		DenyDelete:             true,
		AllowDirect:            true,
		Compression:            jetstream.S2Compression,
		AllowMsgTTL:            markers > 0,
		SubjectDeleteMarkerTTL: markers,
	}
}

// blobsConfig is an object store that every client of NATS can read. Everybody who
// sends something large writes here, so it allows no roll-ups: with them one
// writer could wipe what all others stored.
func (n names) blobsConfig() jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name:        n.blobStream(),
		Subjects:    []string{n.blobChunks(">"), n.blobMetas()},
		Discard:     jetstream.DiscardNew,
		AllowDirect: true,
		Compression: jetstream.S2Compression,
	}
}

// durable is a consumer of a stream.
type durable struct {
	stream string
	config jetstream.ConsumerConfig
	free   []string // settings that may differ: nobody said what they should be
}

// String names d and its stream.
func (d durable) String() string { return d.stream + " > " + d.config.Durable }

func (n names) drivers() durable {
	return durable{stream: n.runStream(), config: jetstream.ConsumerConfig{
		Durable:       n.runConsumer(),
		AckPolicy:     jetstream.AckExplicitPolicy,
		AckWait:       tokenAckWait,
		MaxAckPending: -1,
		MaxDeliver:    -1,
		MaxWaiting:    maxTokenPulls,
	}}
}

func (n names) queue(q QueueConfig) durable {
	d := durable{stream: n.tasksStream(), config: jetstream.ConsumerConfig{
		Durable:       n.queueConsumer(q.Name),
		FilterSubject: n.queueFilter(q.Name),
		AckPolicy:     jetstream.AckExplicitPolicy,
		AckWait:       q.AckWait,
		MaxAckPending: q.Concurrency,
		MaxDeliver:    -1, // attempts are counted where they are decided, in the journal
		MaxWaiting:    maxQueuePulls,
	}}
	if q.AckWait == 0 {
		d.config.AckWait, d.free = queueAckWait, append(d.free, "ack_wait")
	}
	if q.Concurrency == 0 {
		d.config.MaxAckPending, d.free = queueConcurrency, append(d.free, "max_ack_pending")
	}
	return d
}
