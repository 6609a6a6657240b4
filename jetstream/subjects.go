package jetstream

import (
	"encoding/base64"
	"strings"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
)

// names builds every stream name and subject of a cell; there is no other place
// that knows how they look.
type names struct {
	ns     string
	prefix string // of stream and bucket names
}

// newNames takes the upper case of the namespace as the prefix of streams, as is
// usual for them. A namespace whose upper case another one could have too keeps
// its own form, with a dash that no other prefix ends in.
func newNames(ns string) names {
	if strings.ToLower(ns) != ns || strings.Contains(ns, "-") {
		return names{ns: ns, prefix: ns + "-"}
	}
	return names{ns: ns, prefix: strings.ToUpper(ns) + "_"}
}

// Streams and buckets.

func (n names) journalStream() string   { return n.prefix + "JOURNAL" }
func (n names) inboxStream() string     { return n.prefix + "INBOX" }
func (n names) timersStream() string    { return n.prefix + "TIMERS" }
func (n names) runStream() string       { return n.prefix + "RUN" }
func (n names) schedulesStream() string { return n.prefix + "SCHEDULES" }
func (n names) tasksStream() string     { return n.prefix + "TASKS" }
func (n names) catalogBucket() string   { return n.prefix + "CATALOG" }
func (n names) nodesBucket() string     { return n.prefix + "NODES" }
func (n names) snapBucket() string      { return n.prefix + "SNAPSHOTS" }
func (n names) agentsBucket() string    { return n.prefix + "AGENTS" }
func (n names) approvalsBucket() string { return n.prefix + "APPROVALS" }
func (n names) deadBucket() string      { return n.prefix + "DEAD" }
func (n names) memoryBucket() string    { return n.prefix + "MEMORY" }
func (n names) blobBucket() string      { return n.prefix + "BLOBS" }

// The streams that buckets are kept in, and the subjects of their keys, in the
// form that every client of NATS uses.

func kvStream(bucket string) string         { return "KV_" + bucket }
func kvKey(bucket, key string) string       { return "$KV." + bucket + "." + key }
func (n names) blobStream() string          { return "OBJ_" + n.blobBucket() }
func (n names) blobChunks(id string) string { return "$O." + n.blobBucket() + ".C." + id }

func (n names) blobMetaPrefix() string { return "$O." + n.blobBucket() + ".M." }
func (n names) blobMetas() string      { return n.blobMetaPrefix() + ">" }

func (n names) blobMeta(name string) string {
	return n.blobMetaPrefix() + base64.URLEncoding.EncodeToString([]byte(name))
}

// Consumers.

func (n names) runConsumer() string             { return "drivers" }
func (n names) queueConsumer(q string) string   { return "q_" + q }
func (n names) queueFilter(queue string) string { return n.ns + ".task." + queue + ".>" }

// Subjects.

func (n names) journal(s content.SessionID) string { return n.ns + ".journal." + string(s) }
func (n names) allJournals() string                { return n.ns + ".journal.*" }

func (n names) cmd(s content.SessionID, l events.Lane) string {
	return n.ns + ".cmd." + string(s) + "." + string(l)
}
func (n names) cmds(s content.SessionID) string { return n.ns + ".cmd." + string(s) + ".*" }
func (n names) allCmds() string                 { return n.ns + ".cmd.*.*" }

func (n names) timer(s content.SessionID, id string) string {
	return n.ns + ".timer." + string(s) + "." + id
}
func (n names) timers(s content.SessionID) string { return n.ns + ".timer." + string(s) + ".*" }
func (n names) allTimers() string                 { return n.ns + ".timer.*.*" }
func (n names) due(s content.SessionID) string    { return n.ns + ".due." + string(s) }
func (n names) allDue() string                    { return n.ns + ".due.*" }

func (n names) schedule(name string) string { return n.ns + ".schedule." + name }
func (n names) fired(name string) string    { return n.ns + ".fired." + name }
func (n names) outcome(name string) string  { return n.ns + ".outcome." + name }

func (n names) run(s content.SessionID) string { return n.ns + ".run." + string(s) }
func (n names) allRuns() string                { return n.ns + ".run.*" }

func (n names) task(queue string, s content.SessionID, p content.Place) string {
	return n.ns + ".task." + queue + "." + string(s) + "." + string(p)
}
func (n names) allTasks() string { return n.ns + ".task.*.*.*" }

func (n names) delta(s content.SessionID) string  { return n.ns + ".delta." + string(s) }
func (n names) cancel(s content.SessionID) string { return n.ns + ".cancel." + string(s) }
func (n names) allCancels() string                { return n.ns + ".cancel.*" }
func (n names) probe(node string) string          { return n.ns + ".node." + node }

// live is the subject of the copy that the server publishes of what was stored on
// a subject. Nobody else publishes there.
func (n names) live(subject string) string {
	return n.ns + ".live." + strings.TrimPrefix(subject, n.ns+".")
}

// sessionOf returns the session's token of a subject of the cell or of its live
// copy: the token behind the kind, and for tasks the one behind the queue.
func (n names) sessionOf(subject string) content.SessionID {
	tokens := strings.Split(strings.TrimPrefix(subject, n.ns+".live."), ".")
	if tokens[0] == n.ns {
		tokens = tokens[1:]
	}
	switch {
	case len(tokens) >= 3 && tokens[0] == "task":
		return content.SessionID(tokens[2])
	case len(tokens) >= 2:
		return content.SessionID(tokens[1])
	}
	return ""
}
