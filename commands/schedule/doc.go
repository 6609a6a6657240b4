// Package schedule defines what starts on its own: a new session, or input to an existing
// one, at a time, at intervals, or by a crontab expression in a time zone.
//
// A firing is identified by its schedule and the time it was due. Both determine the new
// session and its commands, so a node that handles a firing again sends the same commands
// to the same session, and a session does nothing twice.
//
// The package is pure: it has no clock and no state. The NATS server stores the
// definitions and keeps time (jetstream/schedules), and nodes act on what is due (actor).
// The server also computes the times of crontab expressions; a test there compares the two.
//
// It does not support seconds in crontab expressions, holiday calendars, or random delays.
package schedule
