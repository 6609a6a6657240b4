package client

import (
	"context"
	"errors"
	"slices"

	"github.com/turnlog/turnlog/commands/schedule"
	"github.com/turnlog/turnlog/jetstream/schedules"
)

// Schedule adds a schedule. It returns schedules.ErrExists if the name is taken and replace is false,
// schedule.ErrBadSchedule for a schedule that cannot work, and ErrForbidden if this user may not schedule.
func (c *Client) Schedule(ctx context.Context, s schedule.Schedule, replace bool) error {
	if s.Session != "" {
		if sealed, err := c.IsSealed(ctx, s.Session); err != nil || sealed {
			return errors.Join(err, ErrSealedSchedule)
		}
	}
	return forbidden(schedules.Of(c.cell).Add(ctx, s, replace))
}

// Schedules lists the cell's schedules by name. It returns ErrForbidden if this user may not schedule.
func (c *Client) Schedules(ctx context.Context) ([]schedules.Standing, error) {
	all, err := schedules.Of(c.cell).List(ctx)
	return slices.DeleteFunc(all, func(s schedules.Standing) bool { return s.Removed }), forbidden(err)
}

// Unschedule removes a schedule, including a firing that was not handled yet. It returns
// schedules.ErrNotFound if there is none, and ErrForbidden if this user may not schedule.
func (c *Client) Unschedule(ctx context.Context, name string) error {
	return forbidden(schedules.Of(c.cell).Remove(ctx, name))
}
