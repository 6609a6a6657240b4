package client

import (
	"context"
	"slices"

	"github.com/turnlog/turnlog/jetstream"
	"github.com/turnlog/turnlog/schedule"
)

// Schedule adds a schedule. It returns jetstream.ErrScheduled if the name is taken and
// replace is false, schedule.ErrBadSchedule for a schedule that cannot work, and
// ErrForbidden if this user is no scheduler.
func (c *Client) Schedule(ctx context.Context, s schedule.Schedule, replace bool) error {
	return forbidden(c.cell.Schedules().Add(ctx, s, replace))
}

// Schedules lists the cell's schedules by name. It returns ErrForbidden if this user is
// no scheduler.
func (c *Client) Schedules(ctx context.Context) ([]jetstream.Standing, error) {
	all, err := c.cell.Schedules().List(ctx)
	return slices.DeleteFunc(all, func(s jetstream.Standing) bool { return s.Removed }), forbidden(err)
}

// Unschedule removes a schedule, with a firing that was not handled yet. It returns
// jetstream.ErrNoSchedule if there is none, and ErrForbidden if this user is no
// scheduler.
func (c *Client) Unschedule(ctx context.Context, name string) error {
	return forbidden(c.cell.Schedules().Remove(ctx, name))
}
