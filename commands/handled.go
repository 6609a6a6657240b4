package commands

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
)

// Handled holds the signed commands that a session has handled lately. Anyone who has seen a signed command can send it
// again, and a host refuses a command because of its age only after a while.
type Handled struct {
	Latest []Timed      // in the order of their entries
	Before content.Time // refuse commands that were signed until then: Latest may lack some of them
	Fired  []Timed      // the last command of each schedule
}

// Timed is a command and the time when it was signed, or for the command of a schedule, when the schedule was due.
type Timed struct {
	ID string
	At content.Time
}

// Remember adds an ask to the asks that a session has handled, with the entry that it caused. It ignores reports and
// commands of the host itself, whose IDs have slashes: they are not sent again much later.
func Remember(asks *content.CallSet, id string, entry uint64) {
	if content.IsToken(id) {
		asks.Add(content.CallID(strconv.AppendUint(append(make([]byte, 0, 64), id+" "...), entry, entryBase)))
	}
}

// Recall returns the entry that an ask caused, or 0 if Remember did not add it.
func Recall(asks *content.CallSet, id string) uint64 {
	_, text, found := strings.Cut(asks.Named(id), " ")
	if !found { // the usual case: an error of ParseUint would allocate memory
		return 0
	}
	entry, _ := strconv.ParseUint(text, entryBase, 64)
	return entry
}

// entryBase is the base of the entry numbers. It is large because a session keeps them forever.
const entryBase = 36

// SignedWindow is the maximum difference between the times when a command was signed and when it arrived. A session
// remembers commands for longer, since clocks differ.
const SignedWindow content.Duration = 300e9

const (
	signedKept = 3 * SignedWindow
	maxSigned  = 512 // commands, and schedules
)

// Repeats reports whether a signed command was handled before, or a later one of its schedule.
func (h *Handled) Repeats(env Envelope) bool {
	switch {
	case env.Signed == nil:
		return false
	case env.Signed.Schedule == nil:
		return slices.ContainsFunc(h.Latest, func(s Timed) bool { return s.ID == env.ID })
	}
	next := Timed{env.ID, env.Signed.At}
	return slices.ContainsFunc(h.Fired, func(f Timed) bool { return f.of() == next.of() && !f.before(next) })
}

// of returns the part that the IDs of a schedule's commands share: everything before the due time and the command's
// number.
func (f Timed) of() string {
	id := f.ID[:max(0, strings.LastIndexByte(f.ID, '/'))]
	return id[:max(0, strings.LastIndexByte(id, '/'))]
}

func (f Timed) before(o Timed) bool {
	return f.At < o.At || f.At == o.At && (len(f.ID) < len(o.ID) || len(f.ID) == len(o.ID) && f.ID < o.ID)
}

// Add adds the signed command with an ID, which is handled now. It does not change copies of h.
func (h *Handled) Add(id string, c events.CommandSigned, now content.Time) {
	next := Timed{id, c.At}
	if c.Schedule != nil {
		same := func(f Timed) bool { return f.of() == next.of() }
		h.Fired = append(slices.DeleteFunc(slices.Clone(h.Fired), same), next)
		h.Fired = h.Fired[max(0, len(h.Fired)-maxSigned):]
		return
	}
	old := func(s Timed) bool { return s.At.Add(signedKept) < now }
	h.Latest = append(slices.DeleteFunc(slices.Clone(h.Latest), old), next)
	if len(h.Latest) > maxSigned {
		first := slices.MinFunc(h.Latest, func(a, b Timed) int { return cmp.Compare(a.At, b.At) })
		h.Before = max(h.Before, first.At)
		h.Latest = slices.DeleteFunc(h.Latest, func(s Timed) bool { return s.At <= first.At })
	}
}
