package content

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// SessionID identifies a session. It is a token of a NATS subject: letters, digits,
// '-' and '_' only.
type SessionID string

// TurnID identifies a turn in its session: turn-1, turn-2, …
type TurnID string

// CallID identifies a tool call in its session. It is the model's id if that is usable,
// otherwise the call's place.
type CallID string

// Place is the position of a call: tN-rR-cC for turn N, round R, call C. Subjects and
// idempotency keys use places, never the ids of models.
type Place string

// TaskID identifies the task that carries a call to a worker. It is the call's place.
type TaskID = Place

// ApprovalID identifies a question to a person: the call's place and the number of the
// question.
type ApprovalID string

// ItemID identifies an item of the transcript in its session.
type ItemID string

const maxIDLen = 128

// ErrBadID is returned by the Parse functions for an identifier that cannot be a token
// of a subject. Choose another one.
var ErrBadID = errors.New("bad id")

// ParseSessionID validates a session id. It returns [ErrBadID] if s is not a token.
func ParseSessionID(s string) (SessionID, error) {
	if !IsToken(s) {
		return "", fmt.Errorf("%w: session %q: use 1 to %d letters, digits, '-' or '_'", ErrBadID, s, maxIDLen)
	}
	return SessionID(s), nil
}

// IsToken reports whether s can be a token of a subject: 1 to 128 letters, digits, '-'
// or '_'.
func IsToken(s string) bool {
	if s == "" || len(s) > maxIDLen {
		return false
	}
	for i := range len(s) {
		c := s[i]
		ok := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '_'
		if !ok {
			return false
		}
	}
	return true
}

// TurnIDFor returns the id of the session's n-th turn, counted from 1.
func TurnIDFor(n int) TurnID { return TurnID("turn-" + strconv.Itoa(n)) }

// Number returns n for the id of the session's n-th turn, and 0 for anything else.
func (t TurnID) Number() int {
	digits, _ := strings.CutPrefix(string(t), "turn-")
	if n, err := strconv.Atoi(digits); err == nil && TurnIDFor(n) == t {
		return n
	}
	return 0
}

// PlaceOf returns the place of call c in round r of turn n, all counted from 1.
func PlaceOf(n, r, c int) Place {
	var b [32]byte
	p := strconv.AppendInt(append(b[:0], 't'), int64(n), 10)
	p = strconv.AppendInt(append(p, "-r"...), int64(r), 10)
	p = strconv.AppendInt(append(p, "-c"...), int64(c), 10)
	return Place(p)
}

// VerifierPlace returns the place of a task's verifier: tN-vA for turn N, attempt A. No call of
// a model has such a place.
func VerifierPlace(turn, attempt int) Place {
	return Place("t" + strconv.Itoa(turn) + "-v" + strconv.Itoa(attempt))
}

// ParsePlace parses a place. It returns [ErrBadID] if s is not one.
func ParsePlace(s string) (turn, round, call int, err error) {
	t, rest, _ := strings.Cut(strings.TrimPrefix(s, "t"), "-r")
	r, c, _ := strings.Cut(rest, "-c")
	turn, _ = strconv.Atoi(t)
	round, _ = strconv.Atoi(r)
	call, _ = strconv.Atoi(c)
	if min(turn, round, call) < 1 || string(PlaceOf(turn, round, call)) != s {
		return 0, 0, 0, fmt.Errorf("%w: place %q: want tN-rR-cC", ErrBadID, s)
	}
	return turn, round, call, nil
}

// CallIDFor returns the id of a call: the provider's if it is a token, not taken, and does not begin like a place;
// otherwise the place. If a model could choose the place of another call, or an approval's id, people might decide
// about the wrong call.
func CallIDFor(provider string, p Place, taken func(CallID) bool) CallID {
	if IsToken(provider) && !taken(CallID(provider)) && !likePlace(provider) {
		return CallID(provider)
	}
	return CallID(p)
}

// likePlace reports whether s begins as places of calls and of verifiers do.
func likePlace(s string) bool {
	turn, ok := strings.CutPrefix(s, "t")
	rest := strings.TrimLeft(turn, "0123456789")
	return ok && len(rest) < len(turn) && (strings.HasPrefix(rest, "-r") || strings.HasPrefix(rest, "-v"))
}

// Sender says for people who sent something. It returns the user, if the NATS server verified one, and marks a
// different name that the sender gave as a claim.
func Sender(user, claim string) string {
	switch {
	case user == "" && claim == "":
		return ""
	case user == "":
		return claim + " (claimed)"
	case claim == "" || claim == user:
		return user
	}
	return user + " (claims to be " + claim + ")"
}

// maxOrdinal keeps a made-up ID from exhausting the numbers.
const maxOrdinal = 1 << 30

// Ordinal returns N for an ID of the form iN, with which sessions number items, and zero for any other ID.
func (id ItemID) Ordinal() int {
	digits, ok := strings.CutPrefix(string(id), "i")
	n, err := strconv.Atoi(digits)
	if !ok || err != nil || n < 0 || n > maxOrdinal {
		return 0
	}
	return n
}
