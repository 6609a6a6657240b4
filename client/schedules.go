package client

import (
	"context"
	"errors"
	"fmt"

	"github.com/turnlog/turnlog/jetstream"
	"github.com/turnlog/turnlog/schedule"
)

// Schedule adds a schedule. It returns jetstream.ErrScheduled if there is one of that
// name, unless it may replace it, schedule.ErrBadSchedule for one that cannot be, and
// ErrForbidden if this user is no scheduler.
func (c *Client) Schedule(ctx context.Context, s schedule.Schedule, replace bool) error {
	return c.asScheduler(ctx, func(ctx context.Context) error { return c.cell.Schedules().Add(ctx, s, replace) })
}

// Schedules lists the cell's schedules by name. It returns ErrForbidden if this user is
// no scheduler.
func (c *Client) Schedules(ctx context.Context) (all []jetstream.Standing, err error) {
	err = c.asScheduler(ctx, func(ctx context.Context) (err error) {
		all, err = c.cell.Schedules().List(ctx)
		return err
	})
	return all, err
}

// Unschedule removes a schedule, with its firing that nobody has handled yet. It returns
// jetstream.ErrNoSchedule if there is none, and ErrForbidden if this user is no
// scheduler.
func (c *Client) Unschedule(ctx context.Context, name string) error {
	return c.asScheduler(ctx, func(ctx context.Context) error { return c.cell.Schedules().Remove(ctx, name) })
}

// asScheduler does something that takes a permission of its own.
func (c *Client) asScheduler(ctx context.Context, do func(context.Context) error) error {
	ctx, done := c.permitted(ctx)
	defer done()
	err := do(ctx)
	if why := context.Cause(ctx); err != nil && errors.Is(why, ErrForbidden) {
		return fmt.Errorf("schedules: %w", why)
	}
	return err
}
