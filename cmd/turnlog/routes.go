package main

import (
	"errors"
	"fmt"
	"strings"

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
		"how calls of the tools that a pattern names are waited for: `pattern`=foreground, =background or =detach:DURATION")
}

// Set adds a route.
func (f *routeFlag) Set(text string) error {
	pattern, route, found := strings.Cut(text, "=")
	switch {
	case pattern == "":
		return errors.New("use a tool's name, in which * stands for any characters, before the =")
	case !found:
		return fmt.Errorf("%[1]q has no route: use %[1]s=foreground, %[1]s=background or %[1]s=detach:30s", pattern)
	}
	way, after, err := content.ParseRoute(route)
	if err != nil {
		return fmt.Errorf("%q is no route: %w", route, err)
	}
	*f.routes = append(*f.routes, events.RouteRule{Tool: pattern, Route: way, DetachAfter: after})
	return nil
}

// String is empty, as the default is.
func (f *routeFlag) String() string { return "" }

// Type names what the flag takes.
func (f *routeFlag) Type() string { return "route" }
