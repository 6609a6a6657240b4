package verdict

import (
	"fmt"
	"slices"
)

// Kind says what is wrong with evidence. It never changes its meaning.
type Kind string

// The kinds of faults.
const (
	Tampered   Kind = "tampered"
	Forged     Kind = "forged"
	Replaced   Kind = "replaced"
	Truncated  Kind = "truncated"
	Missing    Kind = "missing"
	Foreign    Kind = "foreign"
	RolledBack Kind = "rolled-back"
	Unreadable Kind = "unreadable"

	// The following are not faults of the journal. Alone, they say why something cannot be judged.
	Deleted Kind = "deleted"
	Erased  Kind = "erased"
	Expired Kind = "expired"
	Newer   Kind = "newer"
	Sealed  Kind = "sealed"

	Restored Kind = "restored"
	Moved    Kind = "moved"
)

// Means says in one sentence what a fault of the kind is.
func (k Kind) Means() string {
	switch k {
	case Tampered:
		return "what is shown differs from what was written: bytes, a view of them, a digest or a header were changed"
	case Forged:
		return "no Turnlog host writes this, or its writer is not who it claims to be"
	case Replaced:
		return "another entry was here: the chain or an earlier head has a different hash"
	case Truncated:
		return "the end was cut off"
	case Missing:
		return "something that was written is gone: entries at the beginning or in the middle, or a blob"
	case Foreign:
		return "it belongs to another session, or to none"
	case RolledBack:
		return "an earlier state was shown after a later one"
	case Unreadable:
		return "the bytes cannot be read, so nothing can be said about their content"
	case Deleted:
		return "it was removed with its session, which left a tombstone"
	case Erased:
		return "the key of its content was destroyed"
	case Expired:
		return "retention removed it with its session, which left a tombstone"
	case Newer:
		return "a later release wrote it: verify with that release"
	case Sealed:
		return "the content is encrypted with a missing key: verify with the seal key"
	case Restored:
		return "it was recorded after the backup from which the deployment was restored, and is lost"
	case Moved:
		return "the session continues in another deployment, or is being moved"
	}
	return "an unknown kind of fault"
}

// Judged reports whether a fault of the kind is a finding. The others only say that something cannot be
// judged.
func (k Kind) Judged() bool {
	return !slices.Contains([]Kind{Deleted, Erased, Expired, Newer, Sealed, Restored, Moved}, k)
}

// Fault is one finding.
type Fault struct {
	Kind      Kind   `json:"kind"`
	Seq       uint64 `json:"seq"`            // sequence of the entry; 0: none, or unknown
	Line      int    `json:"line,omitempty"` // line in the file; 0: not read from a file
	Invariant string `json:"invariant,omitempty"`
	What      string `json:"what"`
}

// String returns the fault in one line.
func (f Fault) String() string {
	where := ""
	if f.Line > 0 {
		where = fmt.Sprintf("line %d, ", f.Line)
	}
	if f.Seq > 0 {
		where += fmt.Sprintf("entry %d, ", f.Seq)
	}
	if f.Invariant != "" {
		return fmt.Sprintf("%s%s (%s): %s", where, f.Kind, f.Invariant, f.What)
	}
	return fmt.Sprintf("%s%s: %s", where, f.Kind, f.What)
}

// FaultError is a fault that ended the reading of evidence.
type FaultError struct {
	Fault Fault
}

// Error returns the fault in one line.
func (e *FaultError) Error() string { return e.Fault.String() }
