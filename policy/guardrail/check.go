package guardrail

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"unicode/utf8"
)

// Ruling is what a check decides.
type Ruling int

// The rulings.
const (
	Passed  Ruling = iota
	Warned         // the turn continues
	Tripped        // the turn ends
)

// Verdict is a check's answer.
type Verdict struct {
	Ruling Ruling
	Reason string // for people, and for the journal: it should not repeat the text
}

// Pass lets the text pass.
func Pass() Verdict { return Verdict{} }

// Warn lets the text pass with a warning.
func Warn(reason string) Verdict { return Verdict{Ruling: Warned, Reason: reason} }

// Trip ends the turn.
func Trip(reason string) Verdict { return Verdict{Ruling: Tripped, Reason: reason} }

// Check checks texts. Name is recorded if it trips or warns.
type Check struct {
	Name string
	// Judge decides about a text. An error ends the turn, unless extension.FailOpen wraps
	// the guard. Judge must return when ctx ends.
	Judge func(ctx context.Context, s Subject) (Verdict, error)

	err error // why it is invalid, for New to return
}

// judge turns a panic of the check into an error, so that the other checks run.
func (c Check) judge(ctx context.Context, s Subject) (v Verdict, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	return c.Judge(ctx, s)
}

// MaxLength trips for texts of more than n characters.
func MaxLength(n int) Check {
	c := Check{Name: "max_length", Judge: func(_ context.Context, s Subject) (Verdict, error) {
		if got := utf8.RuneCountInString(s.Text); got > n {
			return Trip(fmt.Sprintf("%d characters, more than %d", got, n)), nil
		}
		return Pass(), nil
	}}
	if n < 1 {
		c.err = fmt.Errorf("a text of at most %d characters", n)
	}
	return c
}

// Deny trips for texts that match any of the regular expressions. The reason is the
// expression, not the text.
func Deny(name string, expressions ...string) Check {
	c := Check{Name: name}
	if len(expressions) == 0 {
		c.err = errors.New("it denies nothing")
	}
	list := make([]*regexp.Regexp, 0, len(expressions))
	for _, x := range expressions {
		r, err := regexp.Compile(x)
		if err != nil {
			c.err = err
			continue
		}
		list = append(list, r)
	}
	c.Judge = func(_ context.Context, s Subject) (Verdict, error) {
		for _, r := range list {
			if r.MatchString(s.Text) {
				return Trip("matches " + r.String()), nil
			}
		}
		return Pass(), nil
	}
	return c
}

// Warning returns c, with warnings in place of trips.
func Warning(c Check) Check {
	judge := c.Judge
	if judge == nil {
		return c
	}
	c.Judge = func(ctx context.Context, s Subject) (Verdict, error) {
		v, err := judge(ctx, s)
		if v.Ruling == Tripped {
			v.Ruling = Warned
		}
		return v, err
	}
	return c
}
