package guardrail

import (
	"context"
	"fmt"
	"regexp"
	"unicode/utf8"

	"github.com/turnlog/turnlog/extension"
)

// Check checks texts.
type Check struct {
	Name string // recorded with each problem
	Warn bool   // record problems as warnings instead of ending the turn
	// Judge returns the problem with a text, for people and for the journal; "": none. It
	// should not repeat the text, which is never empty. An error ends the turn, unless
	// extension.FailOpen wraps the guard. Judge must return when ctx ends.
	Judge func(ctx context.Context, text string, e extension.HookEvent) (problem string, err error)
}

// judge turns a panic of the check into an error, so that the other checks run.
func (c Check) judge(ctx context.Context, text string, e extension.HookEvent) (problem string, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	return c.Judge(ctx, text, e)
}

// MaxLength returns a check that fails texts of more than n characters.
func MaxLength(n int) Check {
	return Check{Name: "max_length", Judge: func(_ context.Context, text string, _ extension.HookEvent) (string, error) {
		if got := utf8.RuneCountInString(text); got > n {
			return fmt.Sprintf("%d characters, more than %d", got, n), nil
		}
		return "", nil
	}}
}

// Deny returns a check that fails texts that match any of the regular expressions. The
// problem is the expression, not the text.
func Deny(name string, expressions ...string) (Check, error) {
	if len(expressions) == 0 {
		return Check{}, fmt.Errorf("check %s: no expressions", name)
	}
	list := make([]*regexp.Regexp, len(expressions))
	for i, x := range expressions {
		var err error
		if list[i], err = regexp.Compile(x); err != nil {
			return Check{}, fmt.Errorf("check %s: %w", name, err)
		}
	}
	return Check{Name: name, Judge: func(_ context.Context, text string, _ extension.HookEvent) (string, error) {
		for _, r := range list {
			if r.MatchString(text) {
				return "matches " + r.String(), nil
			}
		}
		return "", nil
	}}, nil
}
