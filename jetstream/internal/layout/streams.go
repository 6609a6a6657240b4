package layout

import (
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

const (
	// TokenAckWait is how long a run token is held without a renewal. It is longer than the 7 s that
	// replacing a killed server may take, so no token changes hands because of that.
	TokenAckWait = 12 * time.Second

	// MarkerTTL is how long the marker of a deleted or expired key stays. A reader that was disconnected for
	// less than that still sees the change.
	MarkerTTL = 5 * time.Minute

	// UnlistedTTL is how long the marker of a key stays that readers only scan for: long enough to reach all
	// replicas.
	UnlistedTTL = 5 * time.Second
)

const (
	maxTokenPulls = 1 << 20 // one per session that a node has capacity for

	// QueueConcurrency is the default limit of a queue's concurrent calls. A lower one is an operator's, and covers
	// direct calls, too.
	QueueConcurrency = 1000
	queueAckWait     = 30 * time.Second
	maxQueuePulls    = 1 << 16 // requests; each is for up to a quarter of the free slots of a worker

	// No message of a cell has an ID for deduplication by the server, because a guessed one would
	// suppress another sender's message. This is the smallest window that the server accepts.
	dedupeWindow = 100 * time.Millisecond
)

// Stream is one stream of a cell and its durable consumers.
type Stream struct {
	Name      string // the same in every cell, such as JOURNAL
	Config    jetstream.StreamConfig
	Consumers []jetstream.ConsumerConfig
}

// Streams returns the streams of a cell, buckets included. Storage and replicas are not set.
func (n Names) Streams() []Stream {
	streams := []Stream{
		{Name: "JOURNAL", Config: n.journalConfig()},
		{Name: "INBOX", Config: n.inboxConfig(n.InboxStream(), n.Cmds(AllSessions))},
		{Name: "NAMED", Config: n.inboxConfig(n.NamedStream(), n.CmdOf("*", AllSessions, "*"))},
		{Name: "TIMERS", Config: n.timersConfig()},
		{Name: "RUN", Config: onePerSubject(n.RunStream(), n.Run(AllSessions)), Consumers: []jetstream.ConsumerConfig{n.Drivers()}},
		{Name: "TASKS", Config: onePerSubject(n.TasksStream(), n.AllTasks())},
		{Name: "CATALOG", Config: bucketConfig(n.Catalog(), MarkerTTL)},
		{Name: "NODES", Config: bucketConfig(n.Nodes(), MarkerTTL)},
		{Name: "SNAPSHOTS", Config: bucketConfig(n.Snapshots(), 0)},
		{Name: "FENCES", Config: bucketConfig(n.Fences(), MarkerTTL)},
		{Name: "APPROVALS", Config: bucketConfig(n.Approvals(), MarkerTTL)},
		{Name: "DEAD", Config: bucketConfig(n.Dead(), MarkerTTL)},
		{Name: "AGENTS", Config: bucketConfig(n.Agents(), 0)},
		{Name: "MEMORY", Config: bucketConfig(n.Memory(), MarkerTTL)},
		{Name: "WEBHOOKS", Config: bucketConfig(n.Webhooks(), MarkerTTL)},
		{Name: "SCHEDULES", Config: n.schedulesConfig(n.SchedulesStream(), "*")},
		{Name: "NAMED_SCHEDULES", Config: n.schedulesConfig(n.NamedSchedulesStream(), "*.*")},
		{Name: "BLOBS", Config: n.blobsConfig()},
		{Name: "LOG", Config: n.tilesConfig()},
		{Name: "CHECKPOINTS", Config: n.checkpointsConfig()},
		{Name: "KEYS", Config: firstStays(n.KeysStream(), n.TicketKey())},
		{Name: "SIGNERS", Config: firstStays(n.SignersStream(), n.AllSigners())},
		{Name: "SEALS", Config: n.sealsConfig()},
	}
	for i := range streams {
		streams[i].Config.Duplicates = dedupeWindow
	}
	return streams
}

// MetaRestoring is the metadata of streams that names the backup that is being restored, until the restore
// is done.
const MetaRestoring = "turnlog_restoring"

func (n Names) journalConfig() jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name:        n.JournalStream(),
		Subjects:    []string{n.Journal(AllSessions)},
		Compression: jetstream.S2Compression,
		AllowDirect: true,
		RePublish:   n.republish("journal"),
	}
}

// inboxConfig allows as little as possible. With schedules, a purge of handled commands would delete
// pending ones. With roll-ups, one client could delete every session's commands. With direct gets, a
// lagging replica would answer.
func (n Names) inboxConfig(stream, subjects string) jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name:      stream,
		Subjects:  []string{subjects},
		RePublish: n.republish("cmd"),
	}
}

func (n Names) timersConfig() jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name:              n.TimersStream(),
		Subjects:          []string{n.Timers(AllSessions), n.Due(AllSessions)},
		AllowMsgSchedules: true,
		AllowRollup:       true, // schedules need it
		RePublish:         n.republish("due"),
	}
}

// schedulesConfig keeps one message of each kind: the schedule, its pending firing, and the outcome of the
// last one. Any number of missed firings leave one pending.
func (n Names) schedulesConfig(stream, keys string) jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name:              stream,
		Subjects:          []string{n.Schedule(keys), n.Fired(keys), n.Outcome(keys)},
		MaxMsgsPerSubject: 1,
		AllowMsgSchedules: true,
		AllowRollup:       true, // schedules need it
		RePublish:         n.republish("fired"),
	}
}

func (n Names) republish(kind string) *jetstream.RePublish {
	source := n.NS + "." + kind + ".>"
	return &jetstream.RePublish{Source: source, Destination: n.Live(source)}
}

// onePerSubject is a work queue that rejects a message for a subject that already has one, pending or
// delivered.
func onePerSubject(stream, subjects string) jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name:                 stream,
		Subjects:             []string{subjects},
		Retention:            jetstream.WorkQueuePolicy,
		MaxMsgsPerSubject:    1,
		Discard:              jetstream.DiscardNew,
		DiscardNewPerSubject: true,
	}
}

// bucketConfig is a key-value bucket as every NATS client creates it. With markers, keys may expire, and
// readers see that they did.
func bucketConfig(b Bucket, markers time.Duration) jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name:                   b.Stream(),
		Subjects:               []string{b.Key(">")},
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

// blobsConfig is an object store that every NATS client can read. It allows no roll-ups, with which one
// writer could delete the blobs of all others.
func (n Names) blobsConfig() jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name:        n.BlobStream(),
		Subjects:    []string{n.BlobChunks(">"), n.BlobMetas()},
		Discard:     jetstream.DiscardNew,
		AllowDirect: true,
		Compression: jetstream.S2Compression,
	}
}

// tilesConfig is an object store that every NATS client can read. Each object has one chunk, and the first
// message on each subject stays, so a tile never changes.
func (n Names) tilesConfig() jetstream.StreamConfig {
	c := firstStays(n.TileStream(), n.TileChunks(">"))
	c.Subjects = append(c.Subjects, n.TileMetaPrefix()+">")
	c.AllowDirect, c.Compression = true, jetstream.S2Compression
	return c
}

// checkpointsConfig is a key-value bucket that every NATS client can read. It allows no roll-ups and no
// purges, so its writer can replace a value with a guarded write, but cannot remove one.
func (n Names) checkpointsConfig() jetstream.StreamConfig {
	c := bucketConfig(n.Checkpoints(), 0)
	c.AllowRollup, c.DenyPurge = false, true
	return c
}

// firstStays keeps the first message on each subject. A reply that is directed there does not replace it.
// It can only be deleted with the stream, by a provisioner.
func firstStays(stream, subjects string) jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name:                 stream,
		Subjects:             []string{subjects},
		MaxMsgsPerSubject:    1,
		Discard:              jetstream.DiscardNew,
		DiscardNewPerSubject: true,
		DenyDelete:           true,
		DenyPurge:            true,
	}
}

// sealsConfig keeps the first message on each subject until a keeper erases it. Erasing overwrites the
// message, which compression would prevent.
func (n Names) sealsConfig() jetstream.StreamConfig {
	c := firstStays(n.SealsStream(), n.Seal(AllSessions, "*"))
	c.DenyDelete, c.DenyPurge = false, false
	return c
}

// Drivers returns the consumer of run tokens.
func (n Names) Drivers() jetstream.ConsumerConfig {
	return jetstream.ConsumerConfig{
		Durable:       n.RunConsumer(),
		AckPolicy:     jetstream.AckExplicitPolicy,
		AckWait:       TokenAckWait,
		MaxAckPending: -1,
		MaxDeliver:    -1,
		MaxWaiting:    maxTokenPulls,
	}
}

// Queue returns the consumer of a task queue with default limits.
func (n Names) Queue(name string) jetstream.ConsumerConfig {
	return jetstream.ConsumerConfig{
		Durable:       n.QueueConsumer(name),
		FilterSubject: n.queueFilter(name),
		AckPolicy:     jetstream.AckExplicitPolicy,
		AckWait:       queueAckWait,
		MaxAckPending: QueueConcurrency,
		MaxDeliver:    -1, // the journal counts attempts, and the core limits them
		MaxWaiting:    maxQueuePulls,
	}
}
