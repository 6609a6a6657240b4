package keys

import (
	"cmp"
	"crypto/ed25519"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nkeys"

	"github.com/turnlog/turnlog/content"
)

// Role says what a key may sign. The names are the same as for the roles of permissions.
type Role string

// The roles of keys.
const (
	Driver   Role = "driver"   // entries
	Worker   Role = "worker"   // results of calls
	Client   Role = "client"   // input and all other asks
	Approver Role = "approver" // decisions
)

// Roles returns all roles.
func Roles() []Role { return []Role{Driver, Worker, Client, Approver} }

// ParseRoles parses the roles of a key, such as client+approver.
func ParseRoles(text string) (out []Role, err error) {
	for name := range strings.SplitSeq(text, "+") {
		r := Role(name)
		if !slices.Contains(Roles(), r) {
			return nil, fmt.Errorf("role %q: use driver, worker, client or approver, or several joined with +", name)
		}
		if slices.Contains(out, r) {
			return nil, fmt.Errorf("role %s is listed twice", r)
		}
		out = append(out, r)
	}
	return out, nil
}

// Key is one key of a directory.
type Key struct {
	Public  string       `json:"key"`
	Roles   []Role       `json:"roles"`
	Name    string       `json:"name"` // the owner's; several keys may have one owner
	From    content.Time `json:"from"` // when it becomes valid
	Revoked *Revocation  `json:"revoked,omitempty"`
}

// Revocation ends a key. What it signed before stays valid.
//
// A retired key belonged to its owner until that time. The owner learns of the time in advance and stops signing by
// then. A key may have been stolen long ago, and nothing that was signed since then counts.
//
// Size, if it is not zero, is the size of a log of heads at which the revocation took effect. Signatures that were
// logged before are judged by it, regardless of dates. Sizes of other logs mean nothing.
type Revocation struct {
	At     content.Time `json:"at"`
	Size   int64        `json:"log_size,omitempty"`
	Log    string       `json:"log,omitempty"` // its origin
	Stolen bool         `json:"stolen,omitempty"`
	Reason string       `json:"reason,omitempty"`
}

// extends reports whether the key was stolen at the time in an earlier version, or before it.
func (r *Revocation) extends(old Revocation) bool {
	return r.Stolen && r.At <= old.At && (old.Size == 0 || 0 < r.Size && r.Size <= old.Size && r.Log == old.Log)
}

// How a key ends.
const (
	retired = "retired"
	stolen  = "stolen"
)

// String says how the key ends.
func (r *Revocation) String() string {
	if r.Stolen {
		return stolen
	}
	return retired
}

// Notice is how long before a key is retired the directory must say so, so that all signers have read it.
const Notice = 30 * time.Second

// ID returns the id of the key, which signatures name.
func (k Key) ID() string { return ID(k.Public) }

// Has reports whether the key has one of the roles.
func (k Key) Has(any ...Role) bool {
	return slices.ContainsFunc(any, func(r Role) bool { return slices.Contains(k.Roles, r) })
}

// Directory says who owns the keys of a cell. The root signs every version of it. A later version has all
// keys of the earlier ones. [Directory.Sign] returns the text that [Open] reads. A Directory from Open is
// safe for concurrent use if no caller changes it.
type Directory struct {
	Cell    string       `json:"cell"`    // the namespace of the cell
	Version uint64       `json:"version"` // 1, 2, 3, …
	At      content.Time `json:"at"`      // when it was signed
	// Required has the times from which the roles must sign. A role without a time need not sign.
	Required []Requirement `json:"required,omitempty"`
	Keys     []Key         `json:"keys"`

	verifiers map[string]verifier // by id
}

// Requirement is a time from which signatures by keys of a role are required.
type Requirement struct {
	Role Role         `json:"role"`
	From content.Time `json:"from"`
}

type verifier struct {
	Key

	public ed25519.PublicKey
}

// Requires reports whether a role must sign at a time.
func (d *Directory) Requires(r Role, at content.Time) bool {
	return d != nil && slices.ContainsFunc(d.Required, func(q Requirement) bool { return q.Role == r && at >= q.From })
}

// Require requires signatures of a role from a time on. It replaces an earlier requirement. The zero time
// removes it.
func (d *Directory) Require(r Role, from content.Time) {
	d.Required = slices.DeleteFunc(d.Required, func(q Requirement) bool { return q.Role == r })
	if from != 0 {
		d.Required = append(d.Required, Requirement{r, from})
		slices.SortFunc(d.Required, func(a, b Requirement) int { return cmp.Compare(a.Role, b.Role) })
	}
}

// Lookup returns the key with an id.
func (d *Directory) Lookup(id string) (Key, bool) {
	v, ok := d.verifiers[id]
	return v.Key, ok
}

// Errors about a signature. A node refuses content with such a signature, and an audit reports it.
var (
	ErrUnsigned = errors.New("it has no signature, and a signature is required")
	ErrForged   = errors.New("the signature is invalid for this key and content")
	ErrUnknown  = errors.New("the key is not in the directory of keys")
	ErrRole     = errors.New("the key does not have the role")
	ErrRevoked  = errors.New("the key was revoked before it was used")
	ErrEarly    = errors.New("the key was used before it was valid")
)

// ErrNotice is returned by CheckNotice. Retire the key at a later time, or say that it was stolen.
var ErrNotice = errors.New("the key would be retired before its owner can learn of it")

// skew is how far the clocks of signers may be behind the root's clock.
const skew = 5 * time.Minute

// Check checks a signature over a text that was made at a time, by a key that must have one of the roles. It
// returns the key, if the directory has it, and one of the errors above.
func (d *Directory) Check(s content.Signature, text []byte, at content.Time, roles ...Role) (Key, error) {
	if s.IsZero() {
		return Key{}, ErrUnsigned
	}
	if v, ok := d.verifiers[s.Key]; ok && !ed25519.Verify(v.public, text, s.Bytes) {
		return v.Key, fmt.Errorf("key %s of %s: %w", s.Key, v.Name, ErrForged)
	}
	return d.Valid(s.Key, at, roles...)
}

// Valid checks that a key could sign at a time, in one of the roles. It returns the key, if the directory has it, and one
// of the errors above.
func (d *Directory) Valid(id string, at content.Time, roles ...Role) (Key, error) {
	k, ok := d.Lookup(id)
	if !ok {
		return Key{}, fmt.Errorf("key %s: %w", content.Clip(id, 40), ErrUnknown)
	}
	return k, k.valid(at, roles)
}

// CheckIfSigned is Check, but accepts a missing signature unless the directory requires one of the first role.
func (d *Directory) CheckIfSigned(s content.Signature, text []byte, at content.Time, roles ...Role) error {
	if s.IsZero() && !d.Requires(roles[0], at) {
		return nil
	}
	_, err := d.Check(s, text, at, roles...)
	return err
}

// valid checks the roles and dates of a key.
func (k Key) valid(at content.Time, roles []Role) error {
	var err error
	switch {
	case !k.Has(roles...):
		err = fmt.Errorf("%w: it has %s, and %s is needed", ErrRole, joined(k.Roles, "+"), joined(roles, " or "))
	case k.Revoked != nil && at >= k.Revoked.At:
		err = fmt.Errorf("%w: revoked as of %s, used at %s", ErrRevoked, k.Revoked.At, at)
	case at.Add(skew) < k.From:
		err = fmt.Errorf("%w: valid from %s, used at %s", ErrEarly, k.From, at)
	default:
		return nil
	}
	return fmt.Errorf("key %s of %s: %w", k.ID(), k.Name, err)
}

func joined(roles []Role, by string) string {
	names := make([]string, len(roles))
	for i, r := range roles {
		names[i] = string(r)
	}
	return strings.Join(names, by)
}

// Text returns the text to sign for a purpose, such as turnlog-entry/v1: the purpose and the fields, one per
// line. Backslashes and line breaks in fields are escaped, so different fields have different texts.
func Text(purpose string, fields ...string) []byte {
	size := len(purpose) + 1
	for _, f := range fields {
		size += len(f) + 1
	}
	text := append(make([]byte, 0, size), purpose...)
	for _, f := range fields {
		text = append(text, '\n')
		if strings.ContainsAny(f, "\\\n") {
			f = strings.NewReplacer("\\", `\\`, "\n", `\n`).Replace(f)
		}
		text = append(text, f...)
	}
	return append(text, '\n')
}

// index checks the directory and prepares it for Check.
func (d *Directory) index() error {
	switch {
	case !content.IsToken(d.Cell):
		return fmt.Errorf("%w: cell %q: use letters, digits, '-' or '_'", ErrBadDirectory, d.Cell)
	case d.Version == 0:
		return fmt.Errorf("%w: version 0", ErrBadDirectory)
	}
	d.verifiers = make(map[string]verifier, len(d.Keys))
	for _, k := range d.Keys {
		public, err := decodePublic(nkeys.PrefixByteUser, k.Public)
		id := k.ID()
		switch _, there := d.verifiers[id]; {
		case err != nil:
			return fmt.Errorf("%w: %w", ErrBadDirectory, err)
		case there:
			return fmt.Errorf("%w: key %s is listed twice", ErrBadDirectory, k.Public)
		case !content.IsToken(k.Name):
			return fmt.Errorf("%w: name %q: use letters, digits, '-' or '_'", ErrBadDirectory, k.Name)
		case len(k.Roles) == 0:
			return fmt.Errorf("%w: key %s has no role", ErrBadDirectory, k.Public)
		case k.Revoked != nil && (k.Revoked.Size < 0 || (k.Revoked.Size > 0) != (k.Revoked.Log != "") || strings.ContainsAny(k.Revoked.Log, " \t\r\n")):
			return fmt.Errorf("%w: key %s is revoked at size %d of the log %q", ErrBadDirectory, k.Public, k.Revoked.Size, k.Revoked.Log)
		}
		d.verifiers[id] = verifier{k, public}
	}
	return nil
}

// CheckNotice returns ErrNotice if d newly retires a key, or moves the time, too soon for the owner to learn of it.
func (d *Directory) CheckNotice(before *Directory, now content.Time) error {
	for _, k := range d.Keys {
		if k.Revoked == nil || k.Revoked.Stolen || k.Revoked.At >= now.Add(Notice) {
			continue
		}
		var old Key
		if before != nil {
			old, _ = before.Lookup(k.ID())
		}
		if old.Public != "" && (old.Revoked == nil || *old.Revoked != *k.Revoked) {
			return fmt.Errorf("%w: key %s of %s, at %s", ErrNotice, k.Public, k.Name, k.Revoked.At)
		}
	}
	return nil
}

// Follows returns an error if d cannot replace an earlier version. It must have a higher version, and all of
// the earlier keys with their owners and roles. It may move the time at which a key is retired. It may report that a
// key was stolen, or was stolen earlier than known, but it cannot withdraw a theft.
func (d *Directory) Follows(before *Directory) error {
	if before == nil {
		return nil
	}
	if d.Cell != before.Cell || d.Version <= before.Version {
		return fmt.Errorf("%w: version %d of cell %s cannot follow version %d of %s", ErrRolledBack, d.Version, d.Cell, before.Version, before.Cell)
	}
	for _, old := range before.Keys {
		k, ok := d.Lookup(old.ID())
		same := ok && k.Name == old.Name && slices.Equal(k.Roles, old.Roles) && k.From == old.From &&
			(old.Revoked == nil || k.Revoked != nil && (!old.Revoked.Stolen || k.Revoked.extends(*old.Revoked)))
		if !same {
			return fmt.Errorf("%w: version %d changes key %s of %s, which is in version %d", ErrRolledBack, d.Version, old.ID(), old.Name, before.Version)
		}
	}
	return nil
}
