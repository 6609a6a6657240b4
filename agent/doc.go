// Package agent runs agents in your process: configure one, start a session, and use it
// through package session.
//
// The host is the caller's own goroutine. Effects start only while a Next runs, so an idle
// session costs nothing except for calls in the background, whose outcomes are recorded as
// they arrive.
//
// Every fact is in a journal before it counts (in memory unless Config says otherwise). The core
// that decides is the same as in a deployment (package loop), so its guarantees are the same. After
// a crash, a session can be started again on its journal: nothing is lost, and no call is answered
// twice.
//
// Calls of read-only tools run; all others need a person's approval, unless
// Config.Policy says otherwise. A node of a deployment has the same default.
//
// To run the same program against a deployment, get the session from package client
// instead.
package agent
