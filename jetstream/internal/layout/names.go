// Package layout defines a cell on the wire: the names of its streams, buckets and consumers, every
// subject and header, and the configuration of each stream. It is pure data.
//
// subjects.md at the root of the repository documents it; a test compares the two.
package layout

import (
	"encoding/base64"
	"fmt"
	"strconv"
	"strings"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
)

// DefaultNamespace is the namespace of a cell by default.
const DefaultNamespace = "turnlog"

// ParseNamespace validates the name of a cell. The empty name means DefaultNamespace.
func ParseNamespace(name string) (string, error) {
	if name == "" {
		return DefaultNamespace, nil
	}
	if !content.IsToken(name) {
		return "", fmt.Errorf("namespace %q: use letters, digits, '-' or '_'", name)
	}
	return name, nil
}

// Names builds the stream names and subjects of a cell.
type Names struct {
	NS     string // the namespace: the first token of every subject
	prefix string // of stream and bucket names
}

// New returns the names of a namespace. By convention, streams are prefixed with the namespace in upper
// case. If that would be ambiguous, the prefix is the namespace itself and a dash, which cannot end any
// other prefix.
func New(ns string) Names {
	if strings.ToLower(ns) != ns || strings.Contains(ns, "-") {
		return Names{NS: ns, prefix: ns + "-"}
	}
	return Names{NS: ns, prefix: strings.ToUpper(ns) + "_"}
}

// Streams.

func (n Names) JournalStream() string        { return n.prefix + "JOURNAL" }
func (n Names) InboxStream() string          { return n.prefix + "INBOX" }
func (n Names) NamedStream() string          { return n.prefix + "NAMED" }
func (n Names) TimersStream() string         { return n.prefix + "TIMERS" }
func (n Names) RunStream() string            { return n.prefix + "RUN" }
func (n Names) SchedulesStream() string      { return n.prefix + "SCHEDULES" }
func (n Names) NamedSchedulesStream() string { return n.prefix + "NAMED_SCHEDULES" }
func (n Names) TasksStream() string          { return n.prefix + "TASKS" }
func (n Names) KeysStream() string           { return n.prefix + "KEYS" }
func (n Names) SignersStream() string        { return n.prefix + "SIGNERS" }
func (n Names) SealsStream() string          { return n.prefix + "SEALS" }

// Buckets.

func (n Names) Catalog() Bucket   { return Bucket(n.prefix + "CATALOG") }
func (n Names) Nodes() Bucket     { return Bucket(n.prefix + "NODES") }
func (n Names) Snapshots() Bucket { return Bucket(n.prefix + "SNAPSHOTS") }
func (n Names) Agents() Bucket    { return Bucket(n.prefix + "AGENTS") }
func (n Names) Fences() Bucket    { return Bucket(n.prefix + "FENCES") }
func (n Names) Approvals() Bucket { return Bucket(n.prefix + "APPROVALS") }
func (n Names) Dead() Bucket      { return Bucket(n.prefix + "DEAD") }
func (n Names) Memory() Bucket    { return Bucket(n.prefix + "MEMORY") }
func (n Names) Webhooks() Bucket  { return Bucket(n.prefix + "WEBHOOKS") }

// Checkpoints returns the bucket of the changing values of the log of heads.
func (n Names) Checkpoints() Bucket { return Bucket(n.prefix + "CHECKPOINTS") }

// Bucket is the name of a key-value bucket. Its stream and subjects have the form that all NATS clients
// use.
type Bucket string

// Stream returns the name of the stream that holds the bucket.
func (b Bucket) Stream() string { return "KV_" + string(b) }

// Key returns the subject of a key, which may contain wildcards.
func (b Bucket) Key(key string) string { return "$KV." + string(b) + "." + key }

// Keys of the buckets with more than one kind of value.
const (
	ListKey       = ".held"      // follows a node; the node's list of tokens
	OfferKeys     = "offer."     // followed by a worker, in the catalog
	UnclaimedKeys = "unclaimed." // followed by a queue and a task's number, in the catalog
	BegunKeys     = "begun."     // followed by a queue and a digest of a dispatch, in the catalog
	TrialKeys     = "trial."     // followed by a session, with the dead letters
	PageKeys      = "=sessions." // followed by a page of the list of sessions, with the snapshots; no session has this name

	EndpointKeys = "endpoint." // followed by an endpoint, with the webhooks
	FailedKeys   = "dead."     // followed by an endpoint and a message
	AgainKeys    = "again."    // likewise: a message to be sent again

	TreeKey       = "tree"       // the state of the log, with the checkpoints
	CheckpointKey = "checkpoint" // the newest published checkpoint
	NewestKeys    = "newest."    // followed by a session; its newest leaf
)

// The object store of large payloads.

func (n Names) BlobBucket() string          { return n.prefix + "BLOBS" }
func (n Names) BlobStream() string          { return "OBJ_" + n.BlobBucket() }
func (n Names) BlobChunks(id string) string { return "$O." + n.BlobBucket() + ".C." + id }
func (n Names) BlobMetaPrefix() string      { return "$O." + n.BlobBucket() + ".M." }
func (n Names) BlobMetas() string           { return n.BlobMetaPrefix() + ">" }

func (n Names) BlobMeta(name string) string {
	return n.BlobMetaPrefix() + base64.URLEncoding.EncodeToString([]byte(name))
}

// The object store of the log's tiles.

func (n Names) TileBucket() string          { return n.prefix + "LOG" }
func (n Names) TileStream() string          { return "OBJ_" + n.TileBucket() }
func (n Names) TileChunks(id string) string { return "$O." + n.TileBucket() + ".C." + id }
func (n Names) TileMetaPrefix() string      { return "$O." + n.TileBucket() + ".M." }

func (n Names) TileMeta(path string) string {
	return n.TileMetaPrefix() + base64.URLEncoding.EncodeToString([]byte(path))
}

// Consumers.

func (n Names) RunConsumer() string               { return "drivers" }
func (n Names) QueueConsumer(queue string) string { return "q_" + queue }
func (n Names) queueFilter(queue string) string   { return n.NS + ".task." + queue + ".>" }

// AllSessions matches every session in a subject.
const AllSessions content.SessionID = "*"

// Subjects.

func (n Names) Journal(s content.SessionID) string { return n.NS + ".journal." + string(s) }
func (n Names) Cmds(s content.SessionID) string    { return n.Cmd(s, "*") }

func (n Names) Cmd(s content.SessionID, l events.Lane) string {
	return n.NS + ".cmd." + string(s) + "." + string(l)
}

// CmdOf returns the subject of a named user's commands.
func (n Names) CmdOf(user string, s content.SessionID, l events.Lane) string {
	return n.Cmd(s, l.Unnamed()) + "." + user
}

// userInbox is the start of the inbox prefix of a named user.
const userInbox = "_USER_"

// InboxOf returns the inbox prefix of a named user. Only that user may subscribe to it, so a program can
// tell its own user from its prefix.
func InboxOf(user string) string { return userInbox + user }

// UserOfInbox returns the named user that an inbox prefix belongs to, or "".
func UserOfInbox(prefix string) string {
	user, ok := strings.CutPrefix(strings.TrimSuffix(prefix, "."), userInbox)
	if !ok || !content.IsToken(user) {
		return ""
	}
	return user
}

// Stored is a set of subjects in a stream.
type Stored struct{ Stream, Subject string }

// Commands returns where the commands of a session are stored.
func (n Names) Commands(s content.SessionID) []Stored {
	return []Stored{{n.InboxStream(), n.Cmds(s)}, {n.NamedStream(), n.CmdOf("*", s, "*")}, {n.TimersStream(), n.Due(s)}}
}

// Lanes returns the lanes of a session, in the order in which their commands are handled.
func Lanes() []events.Lane {
	return []events.Lane{
		events.LaneAsk, events.LaneAsk.Named(), events.LaneDecide, events.LaneDecide.Named(), events.LaneReport, events.LaneDue,
	}
}

// Lane returns where the commands of a lane are stored.
func (n Names) Lane(s content.SessionID, l events.Lane) Stored {
	switch {
	case l == events.LaneDue:
		return Stored{n.TimersStream(), n.Due(s)}
	case l != l.Unnamed():
		return Stored{n.NamedStream(), n.Cmd(s, l)}
	}
	return Stored{n.InboxStream(), n.Cmd(s, l)}
}

func (n Names) Timer(s content.SessionID, id string) string {
	return n.NS + ".timer." + string(s) + "." + id
}
func (n Names) Timers(s content.SessionID) string { return n.Timer(s, "*") }
func (n Names) Due(s content.SessionID) string    { return n.NS + ".due." + string(s) }

// A schedule is identified by its key: its name, followed for a named user's schedule by a dot and the
// user.

func (n Names) Schedule(key string) string { return n.NS + ".schedule." + key }
func (n Names) Fired(key string) string    { return n.NS + ".fired." + key }
func (n Names) Outcome(key string) string  { return n.NS + ".outcome." + key }

// AllOfSchedule matches the subjects of a schedule in its stream.
func (n Names) AllOfSchedule(key string) string { return n.NS + ".*." + key }

func (n Names) Run(s content.SessionID) string { return n.NS + ".run." + string(s) }

func (n Names) Task(queue string, s content.SessionID, p content.Place) string {
	return n.NS + ".task." + queue + "." + string(s) + "." + string(p)
}
func (n Names) AllTasks() string { return n.Task("*", AllSessions, "*") }

// Call returns the subject on which drivers send a call directly to a worker. Each call goes to one worker of
// the group Workers.
func (n Names) Call(queue string, s content.SessionID, p content.Place) string {
	return n.NS + ".call." + queue + "." + string(s) + "." + string(p)
}

// Held returns the subject on which workers tell a node whether they have a call that it sent.
func (n Names) Held(node string) string { return n.NS + ".held." + node }

// Unheard returns the subject on which the server tells a node that no worker is subscribed to a call's subject.
func (n Names) Unheard(node, ticket string) string { return n.Held(node) + "." + ticket }

// Workers is the queue group of the workers of one queue.
const Workers = "workers"

// TicketKey is the subject of the key of tickets.
func (n Names) TicketKey() string { return n.NS + ".key.tickets" }

// Signers is the subject of a version of the directory of keys.
func (n Names) Signers(version uint64) string {
	return n.NS + ".signers." + strconv.FormatUint(version, 10)
}
func (n Names) AllSigners() string { return n.NS + ".signers.*" }

// Seal returns the subject of a sealed session's key, as wrapped by the seal key with an ID.
func (n Names) Seal(s content.SessionID, id string) string {
	return n.NS + ".seal." + string(s) + "." + id
}

// Report returns the subject on which workers send reports to a session's driver itself.
func (n Names) Report(s content.SessionID) string { return n.NS + ".report." + string(s) }

func (n Names) Delta(s content.SessionID) string  { return n.NS + ".delta." + string(s) }
func (n Names) Cancel(s content.SessionID) string { return n.NS + ".cancel." + string(s) }
func (n Names) Probe(node string) string          { return n.NS + ".node." + node }

// Deletion returns the subject on which a named user asks a node to delete a session.
func (n Names) Deletion(s content.SessionID, user string) string {
	return n.NS + ".delete." + string(s) + "." + user
}

// Live returns the subject on which the server publishes the copy of a stored message. Only the server
// publishes there.
func (n Names) Live(subject string) string {
	return n.NS + ".live." + strings.TrimPrefix(subject, n.NS+".")
}

// SessionOf returns the session of a subject or of its live copy: the token after the kind, or for tasks
// and calls the one after the queue. It returns "" if that is not a valid ID: a user who may publish on cmd.*.ask may
// publish on that very subject, and "*" as a session would stand for all sessions.
func (n Names) SessionOf(subject string) content.SessionID {
	kind, rest, _ := strings.Cut(strings.TrimPrefix(strings.TrimPrefix(subject, n.NS+".live."), n.NS+"."), ".")
	if kind == "task" || kind == "call" {
		_, rest, _ = strings.Cut(rest, ".")
	}
	session, _, _ := strings.Cut(rest, ".")
	if !content.IsToken(session) {
		return ""
	}
	return content.SessionID(session)
}

// UserOf returns the user at the end of a subject, or "" if that is not a valid name.
func (n Names) UserOf(subject string) string {
	user := subject[strings.LastIndex(subject, ".")+1:]
	if !content.IsToken(user) {
		return ""
	}
	return user
}

// SenderOf returns the lane of a command's subject, or of its live copy, and the user that it names, or "".
func (n Names) SenderOf(subject string) (lane events.Lane, user string) {
	subject = strings.TrimPrefix(strings.TrimPrefix(subject, n.NS+"."), "live.")
	kind, rest, _ := strings.Cut(subject, ".")
	_, last, _ := strings.Cut(rest, ".")
	named, user, ok := strings.Cut(last, ".")
	switch {
	case kind == "due":
		return events.LaneDue, ""
	case kind == "report":
		return events.LaneReport, ""
	case ok:
		return events.Lane(named).Named(), user
	default:
		return events.Lane(last), ""
	}
}
