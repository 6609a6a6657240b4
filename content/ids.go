package content

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// SessionID names one conversation for all time. It is one token of a NATS
// subject: letters, digits, '-' and '_' only.
type SessionID string

// TurnID names a turn of a session: turn-1, turn-2, … over the session's life.
type TurnID string

// CallID names a tool call within its session. It is the model's own id where
// that is usable, else the call's place.
type CallID string

// Place says where a call stands: tN-rR-cC, turn N, round R, call C. Subjects
// and idempotency keys use it, never an id that a model made up.
type Place string

// TaskID names the task that carries a call to a worker; it is the call's place.
type TaskID = Place

// ApprovalID names one question to a person: the call's place and the gate's
// number.
type ApprovalID string

// ItemID names a transcript item within its session.
type ItemID string

const maxIDLen = 128

// ErrBadID is returned by the Parse functions when an identifier cannot be used
// as a token of a subject; choose another one.
var ErrBadID = errors.New("bad id")

// ParseSessionID checks s where it enters the system. It returns [ErrBadID] for
// an empty, overlong or non-token string.
func ParseSessionID(s string) (SessionID, error) {
	if !IsToken(s) {
		return "", fmt.Errorf("%w: session %q: use 1 to %d letters, digits, '-' or '_'", ErrBadID, s, maxIDLen)
	}
	return SessionID(s), nil
}

// IsToken reports whether s can stand as one token of a subject: 1 to 128
// letters, digits, '-' or '_'.
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

// PlaceOf returns the place of call c of round r of turn n, all counted from 1.
func PlaceOf(n, r, c int) Place {
	return Place("t" + strconv.Itoa(n) + "-r" + strconv.Itoa(r) + "-c" + strconv.Itoa(c))
}

// ParsePlace takes a place apart. It returns [ErrBadID] when s is not one.
func ParsePlace(s string) (turn, round, call int, err error) {
	parts := strings.Split(s, "-")
	if len(parts) != 3 {
		return 0, 0, 0, fmt.Errorf("%w: place %q: want tN-rR-cC", ErrBadID, s)
	}
	var n [3]int
	for i, prefix := range []string{"t", "r", "c"} {
		digits, ok := strings.CutPrefix(parts[i], prefix)
		if !ok {
			return 0, 0, 0, fmt.Errorf("%w: place %q: want tN-rR-cC", ErrBadID, s)
		}
		if n[i], err = strconv.Atoi(digits); err != nil || n[i] < 1 || strconv.Itoa(n[i]) != digits {
			return 0, 0, 0, fmt.Errorf("%w: place %q: want tN-rR-cC", ErrBadID, s)
		}
	}
	return n[0], n[1], n[2], nil
}

// CallIDFor returns the id of a call: the model's own if it is a usable token
// that taken does not know, else the place.
func CallIDFor(provider string, p Place, taken func(CallID) bool) CallID {
	if IsToken(provider) && !taken(CallID(provider)) {
		return CallID(provider)
	}
	return CallID(p)
}
