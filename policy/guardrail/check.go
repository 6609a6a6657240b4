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
	Warned         // it goes on, and somebody is told
	Tripped        // the turn ends
)

// String names the ruling.
func (r Ruling) String() string {
	switch r {
	case Passed:
		return "passed"
	case Warned:
		return "warned"
	case Tripped:
		return "tripped"
	}
	return "unknown"
}

// Verdict is a check's answer.
type Verdict struct {
	Ruling Ruling
	Reason string // for people, and for the journal: it should not repeat the text
}

// Pass lets the text through.
func Pass() Verdict { return Verdict{} }

// Warn lets the text through and tells why it nearly was not.
func Warn(reason string) Verdict { return Verdict{Ruling: Warned, Reason: reason} }

// Trip ends the turn.
func Trip(reason string) Verdict { return Verdict{Ruling: Tripped, Reason: reason} }

// Check reads texts. Name names it where it trips or warns.
type Check struct {
	Name string
	// Judge decides about a text. An error says that it could not; it ends the turn,
	// unless extension.FailOpen wraps the guard. Judge returns promptly when ctx ends.
	Judge func(ctx context.Context, s Subject) (Verdict, error)

	err error // what is wrong with it, for New to say
}

// judge isolates what breaks in a check, so that the others are asked still.
func (c Check) judge(ctx context.Context, s Subject) (v Verdict, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("it broke: %v", p)
		}
	}()
	return c.Judge(ctx, s)
}

// MaxLength trips for a text of more than n characters.
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

// Deny trips for a text in which any of the regular expressions matches. Its reason
// names the expression, not what it matched.
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

// Func makes a check of a function that needs the text only.
func Func(name string, f func(ctx context.Context, text string) (Verdict, error)) Check {
	c := Check{Name: name}
	if f != nil {
		c.Judge = func(ctx context.Context, s Subject) (Verdict, error) { return f(ctx, s.Text) }
	}
	return c
}

// Warning is c, but warns where that trips.
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
