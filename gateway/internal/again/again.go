// Package again tells a repeated request from a different one with the same key, and derives the ID of the session that
// a command opens.
//
// The one idea: a key is the ID of a command, and the journal has the entry that the command caused. If that entry has
// different content or another sender, the key was used before, and this request had no effect.
package again

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"

	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/tool"
)

// SessionOf returns the ID of the session that a person's command opens. It is the same for every retry.
func SessionOf(person, command string) string {
	sum := sha256.Sum256([]byte("open\x00" + person + "\x00" + command))
	const length = 13
	return "s-" + hex.EncodeToString(sum[:length])
}

// Fits reports whether a person's command may have caused an entry. It compares the command with the entry's first
// event that people can cause. Input may also have opened the session, since a client need not know whether it exists.
func Fits(e events.Entry, c commands.Command, by string) bool {
	opened := false
	for _, ev := range e.Events {
		began, opens := ev.(events.RunStarted)
		if !opens {
			if who, fits, ok := fact(ev, c); ok {
				return fits && who == by
			}
			continue
		}
		switch is := c.(type) { //nolint:gochecksumtype // other commands open nothing
		case commands.OpenSession:
			from := origin(is.From)
			if fits := began.By == by && from == origin(began.From); !fits || from != "" || len(is.Input) == 0 {
				return fits
			}
			c = commands.SubmitInput{Items: is.Input}
		case commands.SubmitInput:
		default:
			return false
		}
		opened = true // its input follows
	}
	return !opened
}

// origin returns the session that a fork continues.
func origin(from string) string {
	id, _, _ := strings.Cut(from, "@")
	return id
}

// fact compares an event that people can cause with a command. It returns the sender, and whether the command fits. ok is
// false for other events.
func fact(ev events.Event, c commands.Command) (who string, fits, ok bool) {
	switch ev := ev.(type) { //nolint:gochecksumtype // no other event that people cause comes first
	case events.InputQueued:
		is, ok := c.(commands.SubmitInput)
		return ev.By, ok && slices.EqualFunc(ev.Items, is.Items, sameText), true
	case events.ApprovalResolved:
		if ev.Outcome != events.Approved && ev.Outcome != events.Denied || ev.Grant != "" {
			return "", false, false // a close, a cancel or an earlier decision settled it
		}
		is, ok := c.(commands.ResolveApproval)
		about := ev.Approval == is.Approval || ev.Call == content.CallID(is.Approval)
		return ev.By, ok && about && is.Approve == (ev.Outcome == events.Approved) && is.Always == ev.Always && same(is.Input, ev.Input), true
	case events.DeadLetterSettled:
		is, ok := c.(commands.SettleDeadLetter)
		return ev.By, ok && names(is.Call, ev.Call) && is.Retry == (ev.Outcome == events.DeadRetried), true
	case events.CancelRequested:
		is, ok := c.(commands.Cancel)
		return ev.By, ok && is.Scope == ev.Scope && names(is.Call, ev.Target), true
	case events.ToolDetached:
		is, ok := c.(commands.DetachCall)
		return ev.By, ok && names(is.Call, ev.Call), true
	case events.SessionClosed:
		_, fits = c.(commands.Close)
		return ev.By, fits, true
	}
	return "", false, false
}

// sameText reports whether two items have the same text and the same number of parts.
func sameText(a, b content.Item) bool { return len(a.Parts) == len(b.Parts) && a.Text() == b.Text() }

// names reports whether a request may mean a call. Any place fits, since the request may give the place of a call whose
// turn is over.
func names(given, call content.CallID) bool {
	_, _, _, err := content.ParsePlace(string(given))
	return given == call || err == nil
}

func same(a, b []byte) bool { return bytes.Equal(tool.Canonical(a), tool.Canonical(b)) }
