// Package schedule says what is to happen without anybody's doing, and when: a new
// session, or input to one that exists, at a time, at intervals, or by a crontab
// expression in a time zone.
//
// The one idea: a firing is named by its schedule and the time at which it was due,
// and everything that it leads to by that name, the new session as well as its
// commands. Whoever handles a firing once more, on whatever node, sends the same
// commands to the same session, and a session does nothing twice.
//
// The package is pure: it keeps no clock and no state. The NATS server keeps the
// definitions and the time (jetstream.Schedules), nodes do what is due (actor). The
// times of a crontab expression are computed as the server does; a test there
// compares the two.
//
// What it does not do: seconds in crontab expressions, calendars of holidays,
// random delays.
package schedule
