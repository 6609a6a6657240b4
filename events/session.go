package events

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/turnlog/turnlog/content"
)

// DriverClaimed records that a host became the owner of the session. It is the first
// event of every journal and of every takeover, and fences all earlier drivers.
type DriverClaimed struct {
	Epoch uint64          `msgpack:"e" json:"epoch"`
	Node  string          `msgpack:"n,omitempty" json:"node,omitempty"`
	Token string          `msgpack:"t,omitempty" json:"token,omitempty"` // where others can nak the run token for the owner
	Lost  []content.Place `msgpack:"l,omitempty" json:"lost,omitempty"`  // calls that were lost with the previous owner

	Tickets bool `msgpack:"tk,omitempty" json:"tickets,omitempty"` // reports about later dispatches need their tickets

	Key  string `msgpack:"k,omitempty" json:"key,omitempty"`           // the id of the key that signs the owner's entries
	Keys uint64 `msgpack:"kv,omitempty" json:"keys_version,omitempty"` // the version of the directory of keys that the owner uses

	// Checked is the last earlier entry with a signature by the same key. The owner checked it, so the key's next valid
	// signature covers it. 0: there is none, or the owner did not read it.
	Checked uint64 `msgpack:"ck,omitempty" json:"checked,omitempty"`

	RetriedBy string `msgpack:"rb,omitempty" json:"retried_by,omitempty"` // who retried the session, which was set aside
	User      string `msgpack:"us,omitempty" json:"user,omitempty"`       // the same, verified, see content.Sender

	// Restored says that the owner is a restore of the session's deployment, which performs no effects. nil: it is a host.
	Restored *Restored `msgpack:"rs,omitempty" json:"restored,omitempty"`

	// MovedFrom says that the owner is a move of the session, which performs no effects. nil: it is a host, or a restore.
	MovedFrom *MovedFrom `msgpack:"mf,omitempty" json:"moved_from,omitempty"`
}

// MovedFrom says where a session was before it was moved. All entries before this one were recorded there.
type MovedFrom struct {
	Cell      string `msgpack:"c" json:"cell"`                      // the ID of the cell, see package jetstream/backup/move
	Place     string `msgpack:"p,omitempty" json:"place,omitempty"` // where the mover reached it; for people
	Tombstone Hash   `msgpack:"h" json:"tombstone"`                 // hash of the entry that ended the journal there, at this entry's place
	Entry     []byte `msgpack:"e,omitempty" json:"entry,omitempty"` // its bytes
}

// Proves reports whether the claim in e contains the tombstone that it names: of the same session, after the same entry. If so, an
// earlier head that is this tombstone is also a head of this journal.
func (m *MovedFrom) Proves(e Entry) bool {
	left, err := Decode(m.Entry)
	d, deleted := DeletionOf(left)
	return err == nil && deleted && d.MovedTo != nil && HashOf(m.Entry) == m.Tombstone &&
		left.Session == e.Session && left.Seq == e.Seq && left.Prev == e.Prev
}

// MovedTo says where a moved session is.
type MovedTo struct {
	Cell  string `msgpack:"c" json:"cell"`                      // the ID of the cell, see package jetstream/backup/move
	Place string `msgpack:"p,omitempty" json:"place,omitempty"` // where the mover reached it; for people
}

// ClaimOf returns the claim with which e begins, if it has one. It starts the epoch of e.
func ClaimOf(e Entry) (claim DriverClaimed, ok bool) {
	if len(e.Events) > 0 {
		claim, ok = e.Events[0].(DriverClaimed)
	}
	return claim, ok
}

// MovedFromOf returns the move that wrote e, or nil.
func MovedFromOf(e Entry) *MovedFrom {
	claim, _ := ClaimOf(e)
	return claim.MovedFrom
}

// Restored says that a session continues from its state in a backup. Entries recorded after the backup are lost, unless
// they come before this one.
type Restored struct {
	Backup string       `msgpack:"b" json:"backup"` // the ID of the backup
	Taken  content.Time `msgpack:"t" json:"taken"`  // when the backup began; it has everything that was recorded by then
}

// RestoredOf returns the restore that wrote e, or nil.
func RestoredOf(e Entry) *Restored {
	if claim, ok := ClaimOf(e); ok || len(e.Events) == 0 {
		return claim.Restored
	}
	gone, _ := e.Events[0].(SessionDeleted)
	return gone.Restored
}

// Parked records that a driver released an idle session. All commands up to the
// entry's cursors are handled.
type Parked struct {
	Timer bool `msgpack:"t,omitempty" json:"timer,omitempty"` // the server holds a timer that will wake the session
	Calls int  `msgpack:"c,omitempty" json:"calls,omitempty"` // calls on their queues, whose workers will wake it
}

// SnapshotTaken records the digest of the session's state before this entry, as the driver computed it. A host
// may start only from a snapshot with this digest.
type SnapshotTaken struct {
	Format int  `msgpack:"f" json:"format"` // format of the snapshot, which determines its bytes
	Digest Hash `msgpack:"d" json:"digest"`
}

// CommandSigned records what the sender of an entry's cause signed. It precedes everything that the command
// caused, so an audit can compare the two.
type CommandSigned struct {
	Command   string            `msgpack:"n" json:"command"`                       // its name
	Said      []byte            `msgpack:"s,omitempty" json:"said,omitempty"`      // as it was sent, but without input, which the entry has
	At        content.Time      `msgpack:"t" json:"signed_at"`                     // by the sender's clock
	Signature content.Signature `msgpack:"sg" json:"signature"`                    // of the sender
	Schedule  []byte            `msgpack:"sc,omitempty" json:"schedule,omitempty"` // the schedule that sent it; the signature is for the schedule
}

// RunStarted opens a session: once, never on resume.
type RunStarted struct {
	Config     Config            `msgpack:"c" json:"config"`
	Transcript []content.Item    `msgpack:"t,omitempty" json:"transcript,omitempty"` // initial items
	Stepped    bool              `msgpack:"st,omitempty" json:"stepped,omitempty"`   // only Continue ends its waits
	Metadata   content.Metadata  `msgpack:"md,omitempty" json:"metadata,omitempty"`
	Parent     content.SessionID `msgpack:"p,omitempty" json:"parent,omitempty"`
	From       string            `msgpack:"f,omitempty" json:"from,omitempty"` // the entry of another session that it continues, as an EntryRef
	By         string            `msgpack:"b,omitempty" json:"by,omitempty"`
	User       string            `msgpack:"us,omitempty" json:"user,omitempty"` // verified, see content.Sender
}

// ConfigChanged records the configuration of a new host.
type ConfigChanged struct {
	Config Config `msgpack:"c" json:"config"`
}

// ModelSwitched records that the session uses another model from its next call on.
type ModelSwitched struct {
	Model string `msgpack:"m" json:"model"`
	Data  []byte `msgpack:"d,omitempty" json:"data,omitempty"` // what opens it, in addition to its name
	By    string `msgpack:"b,omitempty" json:"by,omitempty"`
	User  string `msgpack:"us,omitempty" json:"user,omitempty"` // verified, see content.Sender
}

// SessionClosed ends a session for good.
type SessionClosed struct {
	Reason string `msgpack:"r,omitempty" json:"reason,omitempty"`
	By     string `msgpack:"b,omitempty" json:"by,omitempty"`
	User   string `msgpack:"us,omitempty" json:"user,omitempty"` // verified, see content.Sender
}

// SessionDeleted is the tombstone of a deleted session: the last entry of its journal,
// and the only one after the others are purged. The entries of an erased session stay, but
// can no longer be opened. Nothing follows a tombstone, so the session's id is never used
// again, unless a moved session comes back with its complete journal.
type SessionDeleted struct {
	By      string `msgpack:"b,omitempty" json:"by,omitempty"`
	User    string `msgpack:"us,omitempty" json:"user,omitempty"` // verified, see content.Sender
	Reason  string `msgpack:"r,omitempty" json:"reason,omitempty"`
	Expired bool   `msgpack:"x,omitempty" json:"expired,omitempty"` // by the retention policy
	Erased  bool   `msgpack:"er,omitempty" json:"erased,omitempty"` // the key of its content is destroyed, and its entries stay

	// Restored says that a restore deleted the session again, because it was deleted before. nil: it did not.
	Restored *Restored `msgpack:"rs,omitempty" json:"restored,omitempty"`

	// MovedTo says that the session was not deleted, but continues in another cell. nil: it was deleted.
	MovedTo *MovedTo `msgpack:"mt,omitempty" json:"moved_to,omitempty"`
}

// Deletion describes a deleted session: when and why it was deleted, how many entries
// it had, and the hash of the last one.
type Deletion struct {
	By      string       `json:"by,omitempty"`
	User    string       `json:"user,omitempty"` // verified, see content.Sender
	Reason  string       `json:"reason,omitempty"`
	Expired bool         `json:"expired,omitempty"`
	Erased  bool         `json:"erased,omitempty"` // only its content is gone
	At      content.Time `json:"at"`
	Entries uint64       `json:"entries"`
	Last    Hash         `json:"last_hash"`

	MovedTo *MovedTo `json:"moved_to,omitempty"` // where the session continues; nil: nowhere
}

// String returns the deletion in one line.
func (d Deletion) String() string {
	what := "was deleted"
	if d.Expired {
		what = "expired and was deleted"
	}
	if d.Erased {
		what = "was erased"
	}
	if d.MovedTo != nil {
		what = "was moved to " + d.MovedTo.String()
	}
	by := content.Sender(d.User, d.By)
	if by != "" {
		by = " by " + by
	}
	why := ""
	if d.Reason != "" {
		why = " (" + d.Reason + ")"
	}
	return fmt.Sprintf("%s at %s%s%s: %d entries, last hash %s", what, d.At, by, why, d.Entries, d.Last)
}

// String names the cell.
func (m MovedTo) String() string { return place(m.Cell, m.Place) }

// String names the cell.
func (m MovedFrom) String() string { return place(m.Cell, m.Place) }

func place(cell, place string) string {
	if place == "" {
		return "cell " + cell
	}
	return fmt.Sprintf("%s (cell %s)", place, cell)
}

// DeletionOf returns the deletion that e records. It reports whether e is a tombstone.
func DeletionOf(e Entry) (Deletion, bool) {
	if len(e.Events) != 1 || e.Seq == 0 {
		return Deletion{}, false
	}
	d, ok := e.Events[0].(SessionDeleted)
	if !ok {
		return Deletion{}, false
	}
	return Deletion{By: d.By, User: d.User, Reason: d.Reason, Expired: d.Expired, Erased: d.Erased, MovedTo: d.MovedTo, At: e.At, Entries: e.Seq - 1, Last: e.Prev}, true
}

// Config is the part of a host's configuration that a journal records: names, limits
// and digests, but no code.
type Config struct {
	Digest    string `msgpack:"d,omitempty" json:"digest,omitempty"` // of the host's complete configuration
	Model     string `msgpack:"m,omitempty" json:"model,omitempty"`
	ModelData []byte `msgpack:"md,omitempty" json:"model_data,omitempty"` // needed to open the model on any node, such as a script

	Agent *AgentRef `msgpack:"ag,omitempty" json:"agent,omitempty"` // nil: the session has no agent definition

	Catalog     Catalog        `msgpack:"ca,omitempty" json:"catalog"`          // the tools offered at the start
	Tools       []string       `msgpack:"tl,omitempty" json:"tools,omitempty"`  // name patterns of the tools to use: the first match decides, ! excludes; nil: all
	Rules       []Rule         `msgpack:"ru,omitempty" json:"rules,omitempty"`  // permissions of calls, which restrict the policy; nil: as the policy says
	Routes      []RouteRule    `msgpack:"rt,omitempty" json:"routes,omitempty"` // how the loop waits for calls; nil: as each tool declares
	MaxParallel int            `msgpack:"mp,omitempty" json:"max_parallel,omitempty"`
	FailRun     bool           `msgpack:"fr,omitempty" json:"fail_run,omitempty"` // a failed tool call ends the turn
	Hooks       []Registration `msgpack:"h,omitempty" json:"hooks,omitempty"`
	Mutators    []Registration `msgpack:"mu,omitempty" json:"mutators,omitempty"`

	Limits        Limits                `msgpack:"l" json:"limits"`          // per turn
	SessionLimits Limits                `msgpack:"sl" json:"session_limits"` // of the whole session
	Retry         Retry                 `msgpack:"re" json:"retry"`
	Cache         *content.CacheRequest `msgpack:"cr,omitempty" json:"cache,omitempty"`
	Output        *Output               `msgpack:"out,omitempty" json:"output,omitempty"`         // nil: answers are free text
	ApprovalTTL   time.Duration         `msgpack:"at,omitempty" json:"approval_ttl_ns,omitempty"` // zero: approvals do not expire
	NotifyOnly    bool                  `msgpack:"no,omitempty" json:"notify_only,omitempty"`     // notifications do not start a turn
}

// AgentRef identifies the agent of a session and its version. A session keeps the definition with
// which it started, even if the file changes.
type AgentRef struct {
	Name    string          `msgpack:"n" json:"name"`
	Version string          `msgpack:"v,omitempty" json:"version,omitempty"` // version of the definition; empty in a command: the latest
	Data    json.RawMessage `msgpack:"d,omitempty" json:"data,omitempty"`    // the canonical definition; empty in a command: the node finds it
	Local   bool            `msgpack:"l,omitempty" json:"local,omitempty"`   // from a folder of the node, so nodes run its commands; ignored in a command
	Known   bool            `msgpack:"k,omitempty" json:"known,omitempty"`   // from a folder of the node, or published, and not changed by the opener; ignored in a command
}

// Claimed returns the reference of a session whose opener or user has changed what the agent does: its
// policy gives it no permissions for the agent's name. It returns nil for nil.
func (r *AgentRef) Claimed() *AgentRef {
	if r == nil || !r.Known {
		return r
	}
	claimed := *r
	claimed.Known = false
	return &claimed
}

// Output is the required format of a session's answers.
type Output struct {
	Schema  json.RawMessage `msgpack:"s" json:"schema"`                      // JSON Schema of the answer
	Repairs int             `msgpack:"r,omitempty" json:"repairs,omitempty"` // rounds to correct an invalid answer; zero: 2, negative: none
}

// Registration is a hook or mutator and the points at which it runs.
type Registration struct {
	Name   string   `msgpack:"n" json:"name"`
	Points []string `msgpack:"p" json:"points"`
}

// Retry limits the attempts at model calls and tool calls.
type Retry struct {
	ModelAttempts int           `msgpack:"m,omitempty" json:"model_attempts,omitempty"`     // zero: as many as ModelPatience allows
	ToolAttempts  int           `msgpack:"t,omitempty" json:"tool_attempts,omitempty"`      // zero: 3
	LostAttempts  int           `msgpack:"l,omitempty" json:"lost_attempts,omitempty"`      // zero: 10
	Backoff       time.Duration `msgpack:"b,omitempty" json:"backoff_ns,omitempty"`         // maximum delay before the first retry, doubled for each further one; zero: 500 ms
	MaxBackoff    time.Duration `msgpack:"mb,omitempty" json:"max_backoff_ns,omitempty"`    // zero: 30 s
	ModelPatience time.Duration `msgpack:"mp,omitempty" json:"model_patience_ns,omitempty"` // how long a failing model call is repeated, from its first failure; zero: 5 min
	AskLost       bool          `msgpack:"al,omitempty" json:"ask_lost,omitempty"`          // ask a person whether to retry a lost call that is unsafe to repeat; otherwise its outcome is unknown
}
