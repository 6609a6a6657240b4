// Package agent runs agents in your process: configure one, start a session, and use it
// through package session.
//
// The one idea: the host is the caller's own goroutine. Effects start only while a Next
// runs, so an idle session costs nothing but the calls that run in the background, whose
// outcomes are recorded as they arrive.
//
// Every fact is in a journal before it counts (in memory unless Config says otherwise),
// and the core that decides is the one that a deployment runs (package loop). So what holds
// here holds there, and after a crash a session can be started again on its journal, with
// nothing lost and no call answered twice.
//
// Calls of tools that only read run; a person is asked about all others, unless
// Config.Policy says otherwise. A node of a deployment has the same default.
//
// To run the same program against a deployment, get the session from package client
// instead.
package agent
