package engine

import "github.com/turnlog/turnlog/content"

// ChildID names the session that a call of a sub-agent's tool runs in.
func ChildID(parent content.SessionID, p content.Place) content.SessionID {
	return content.SessionID(string(parent) + "-" + string(p))
}

// ChildCancel is the id of the command that cancels that session for its caller, so that it
// is cancelled once, whichever process sends it.
func ChildCancel(parent content.SessionID, p content.Place) string {
	return "cancel/" + string(ChildID(parent, p))
}
