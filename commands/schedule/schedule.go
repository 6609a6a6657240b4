package schedule

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/internal/wire"
)

// Overlap says what happens to a firing while the previous session, or the session that
// the input is for, is still busy.
type Overlap string

// The policies. Skip is the default.
const (
	Skip  Overlap = "skip"  // nothing is started
	Allow Overlap = "allow" // another session is started, or the input is queued
)

// Schedule says what to send to which session, and when.
type Schedule struct {
	Name    string // a token of at most 64 characters; its sessions are named after it
	Timing  Timing
	Session content.SessionID // receives the input; "": each firing opens a new session
	// Commands are sent by each firing: OpenSession and perhaps StartTask to a new
	// session, SubmitInput or StartTask to an existing one.
	Commands []commands.Command
	Overlap  Overlap       // "": Skip
	Late     time.Duration // a firing that is later than this is skipped; 0: none is
	By       string        // who added it, not verified
	User     string        // the same, if the NATS server verified it; not in the stored form
	Created  time.Time     // distinguishes it from earlier schedules of that name

	Signature content.Signature // signature of who added it; zero: not signed
}

// ErrBadSchedule is returned for an invalid schedule. The text says why; correct it.
var ErrBadSchedule = errors.New("bad schedule")

const (
	maxName = 64
	// MaxSize limits the stored form of a schedule, including what it sends.
	MaxSize = 64 << 10
)

// Check returns ErrBadSchedule if s is invalid.
func (s Schedule) Check() error {
	if err := s.check(); err != nil {
		return fmt.Errorf("%w %q: %w", ErrBadSchedule, s.Name, err)
	}
	return nil
}

func (s Schedule) check() error {
	switch {
	case !content.IsToken(s.Name) || len(s.Name) > maxName:
		return fmt.Errorf("name: use 1 to %d letters, digits, '-' or '_'", maxName)
	case s.Session != "" && !content.IsToken(string(s.Session)):
		return fmt.Errorf("session %q: use letters, digits, '-' or '_'", s.Session)
	case s.Overlap != "" && s.Overlap != Skip && s.Overlap != Allow:
		return fmt.Errorf("overlap %q: use skip or allow", s.Overlap)
	case s.Late < 0:
		return fmt.Errorf("lateness %v is negative", s.Late)
	case s.Created.IsZero():
		return errors.New("the time when it was created is missing")
	}
	if err := s.Timing.check(); err != nil {
		return err
	}
	return s.checkCommands()
}

// checkCommands allows only the commands of clients that begin work, so a schedule grants no
// other rights.
func (s Schedule) checkCommands() error {
	switch {
	case len(s.Commands) == 0:
		return errors.New("there are no commands")
	case s.Session == "" && !is[commands.OpenSession](s.Commands[0]):
		return errors.New("the first command must open the new session")
	}
	for i, c := range s.Commands {
		switch {
		case is[commands.SubmitInput](c), is[commands.StartTask](c):
		case !is[commands.OpenSession](c):
			return fmt.Errorf("a schedule may not send %s", commands.NameOf(c))
		case s.Session != "" || i > 0:
			return errors.New("only a new session can be opened, and only once")
		}
	}
	return nil
}

func is[C commands.Command](c commands.Command) bool {
	_, ok := c.(C)
	return ok
}

// Key identifies s. Each user with a verified name has separate schedules.
func (s Schedule) Key() string {
	if s.User != "" {
		return s.Name + "." + s.User
	}
	return s.Name
}

// Overlaps returns the policy of s.
func (s Schedule) Overlaps() Overlap {
	if s.Overlap == "" {
		return Skip
	}
	return s.Overlap
}

// SessionAt returns the session of the firing that was due at a time.
func (s Schedule) SessionAt(due time.Time) content.SessionID {
	if s.Session != "" {
		return s.Session
	}
	return content.SessionID(s.Name + "-" + due.UTC().Format("20060102T150405Z"))
}

// Envelopes returns the commands of the firing that was due at a time. They are always the same,
// so sending them again has no effect.
func (s Schedule) Envelopes(due time.Time) []commands.Envelope {
	out, by := make([]commands.Envelope, len(s.Commands)), s.User
	if by == "" {
		by = "schedule/" + s.Name
	}
	for i, c := range s.Commands {
		out[i] = commands.Envelope{
			ID:      causeOf(s.Key(), s.Created, due) + strconv.Itoa(i+1),
			Session: s.SessionAt(due), By: by, At: content.TimeOf(due), Command: c,
		}
	}
	return out
}

const (
	causePrefix = "schedule/"
	idParts     = 4 // after it: the key, when it was created, when it was due, and the number of the command
)

// causeOf returns the prefix of the IDs of a firing's commands.
func causeOf(key string, created, due time.Time) string {
	return fmt.Sprintf("%s%s/%d/%d/", causePrefix, key, created.UnixMilli(), due.Unix())
}

// KeyOf returns the key of the schedule that sent the command with an ID, or "".
func KeyOf(command string) string {
	rest, ok := strings.CutPrefix(command, causePrefix)
	key, _, _ := strings.Cut(rest, "/")
	if !ok {
		return ""
	}
	return key
}

// stored is the stored form of a schedule.
type stored struct {
	Name     string   `msgpack:"n"`
	At       int64    `msgpack:"at,omitempty"`
	Every    int64    `msgpack:"ev,omitempty"`
	Cron     string   `msgpack:"cr,omitempty"`
	Zone     string   `msgpack:"tz,omitempty"`
	Session  string   `msgpack:"s,omitempty"`
	Commands [][]byte `msgpack:"c"` // envelopes
	Overlap  string   `msgpack:"o,omitempty"`
	Late     int64    `msgpack:"l,omitempty"`
	By       string   `msgpack:"b,omitempty"`
	Created  int64    `msgpack:"t"`

	Signature *content.Signature `msgpack:"sg,omitempty"`
}

// Definition returns the stored form of s without its signature. These are the signed bytes.
func (s Schedule) Definition() ([]byte, error) {
	s.Signature = content.Signature{}
	return s.Encode()
}

// Sent returns the command that a schedule sends to a session under an ID, and when it was due. definition is the
// result of Definition. Sent returns ErrBadSchedule if the schedule does not send that, or is not due at that time.
func Sent(definition []byte, session content.SessionID, id string) (c commands.Command, due time.Time, err error) {
	s, err := Decode(definition)
	if err != nil {
		return nil, due, err
	}
	parts := strings.Split(strings.TrimPrefix(id, causePrefix), "/")
	if len(parts) != idParts {
		return nil, due, fmt.Errorf("%w %q: it has no command %s", ErrBadSchedule, s.Name, content.Clip(id, maxName))
	}
	_, s.User, _ = strings.Cut(parts[0], ".")
	at, err := strconv.ParseInt(parts[2], 10, 64)
	if due = time.Unix(at, 0); err != nil || !s.Timing.Due(due).Equal(due) {
		return nil, due, fmt.Errorf("%w %q: it is not due at %s", ErrBadSchedule, s.Name, parts[2])
	}
	for _, env := range s.Envelopes(due) {
		if env.ID == id && env.Session == session {
			return env.Command, due, nil
		}
	}
	return nil, due, fmt.Errorf("%w %q: for session %s it has no command %s", ErrBadSchedule, s.Name, session, id)
}

// Encode returns the stored form of s. It returns ErrBadSchedule if that is too large.
func (s Schedule) Encode() ([]byte, error) {
	w := stored{
		Name: s.Name, Every: int64(s.Timing.Every), Cron: s.Timing.Cron, Zone: s.Timing.Zone, Session: string(s.Session),
		Overlap: string(s.Overlap), Late: int64(s.Late), By: s.By, Created: s.Created.UnixMilli(),
	}
	if !s.Signature.IsZero() {
		w.Signature = &s.Signature
	}
	if !s.Timing.At.IsZero() {
		w.At = wholeSecond(s.Timing.At).Unix()
	}
	for _, c := range s.Commands {
		b, err := commands.Envelope{ID: s.Name, Session: s.Session, Command: c}.Encode()
		if err != nil {
			return nil, fmt.Errorf("encode schedule %s: %w", s.Name, err)
		}
		w.Commands = append(w.Commands, b)
	}
	b, err := wire.Marshal(w, wire.Command)
	switch {
	case err != nil:
		return nil, fmt.Errorf("encode schedule %s: %w", s.Name, err)
	case len(b) > MaxSize:
		return nil, fmt.Errorf("%w %q: it has %d bytes, more than %d: let the model read a file, or use a published agent",
			ErrBadSchedule, s.Name, len(b), MaxSize)
	}
	return b, nil
}

// Decode decodes what Encode returned. It returns ErrBadSchedule for anything else, and
// for an invalid schedule.
func Decode(b []byte) (Schedule, error) {
	var w stored
	if err := wire.Unmarshal(b, wire.Command, &w); err != nil {
		return Schedule{}, fmt.Errorf("%w: %w", ErrBadSchedule, err)
	}
	s := Schedule{
		Name:    w.Name,
		Timing:  Timing{Every: time.Duration(w.Every), Cron: w.Cron, Zone: w.Zone},
		Session: content.SessionID(w.Session), Overlap: Overlap(w.Overlap), Late: time.Duration(w.Late), By: w.By,
		Created: time.UnixMilli(w.Created).UTC(),
	}
	if w.Signature != nil {
		s.Signature = *w.Signature
	}
	if w.At != 0 {
		s.Timing.At = time.Unix(w.At, 0).UTC()
	}
	for _, raw := range w.Commands {
		e, err := commands.Decode(raw)
		if err != nil {
			return Schedule{}, fmt.Errorf("%w %q: %w", ErrBadSchedule, w.Name, err)
		}
		s.Commands = append(s.Commands, e.Command)
	}
	return s, s.Check()
}

// Text returns the first text that the schedule sends to the model, or its goal.
func (s Schedule) Text() string {
	for _, c := range slices.Backward(s.Commands) {
		if task, ok := c.(commands.StartTask); ok {
			return task.Spec.Goal
		}
		open, _ := c.(commands.OpenSession) // zero for other commands
		input, _ := c.(commands.SubmitInput)
		for _, i := range append(slices.Clone(open.Input), input.Items...) {
			if t := i.Text(); t != "" {
				return t
			}
		}
	}
	return ""
}

// Agent returns the agent of the sessions that the schedule opens, or nil.
func (s Schedule) Agent() *events.AgentRef {
	if len(s.Commands) > 0 {
		if o, is := s.Commands[0].(commands.OpenSession); is {
			return o.Config.Agent
		}
	}
	return nil
}
