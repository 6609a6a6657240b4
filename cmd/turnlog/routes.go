package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
)

// routeFlag takes routes as PATTERN=foreground, PATTERN=background or
// PATTERN=detach:DURATION, one each time that it is given.
type routeFlag struct {
	routes *[]events.RouteRule
}

func registerRoutes(cmd *cobra.Command, routes *[]events.RouteRule) {
	cmd.Flags().Var(&routeFlag{routes}, "route",
		"in a new session, how calls of the tools that a pattern names are waited for: `pattern`=foreground, =background or =detach:DURATION")
}

// Set adds a route.
func (f *routeFlag) Set(text string) error {
	pattern, route, _ := strings.Cut(text, "=")
	if pattern == "" {
		return errors.New("use a tool's name, in which * stands for any characters, before the =")
	}
	r := events.RouteRule{Tool: pattern}
	switch word, after, timed := strings.Cut(route, ":"); {
	case route == routeName(content.Foreground):
	case route == string(content.Background):
		r.Route = content.Background
	case word == string(content.DetachSoon) && timed:
		d, err := time.ParseDuration(after)
		if err != nil || d <= 0 {
			return fmt.Errorf("%q: use a positive duration like 30s", after)
		}
		r.Route, r.DetachAfter = content.DetachSoon, d
	default:
		return fmt.Errorf("%q: use foreground, background or detach:DURATION", route)
	}
	*f.routes = append(*f.routes, r)
	return nil
}

// String is empty, as the default is.
func (f *routeFlag) String() string { return "" }

// Type names what the flag takes.
func (f *routeFlag) Type() string { return "route" }

// otherRoutes names the flag if it was given and asks for other routes than the
// session has.
func otherRoutes(want, have []events.RouteRule, given func(flag string) bool) string {
	if given("route") && !slices.Equal(want, have) {
		return "route"
	}
	return ""
}
