package session_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/engine"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/extension"
	"github.com/turnlog/turnlog/session"
)

// guard is a hook that ends turns.
type guard struct{}

func (guard) Name() string              { return "guard" }
func (guard) Points() []extension.Point { return []extension.Point{extension.PreLlmCall} }

func (guard) OnEvent(context.Context, extension.HookEvent) (extension.Action, error) {
	return extension.Action{Kind: extension.Terminate, Reason: "no"}, nil
}

// clumsy is a mutator that fails.
type clumsy struct{}

func (clumsy) Name() string                                      { return "clumsy" }
func (clumsy) Mutate(context.Context, *extension.Mutation) error { return errors.New("dropped it") }
func is(target error) func(error) bool                           { return func(err error) bool { return errors.Is(err, target) } }

func as[E error](holds func(E) bool) func(error) bool {
	return func(err error) bool {
		e, ok := errors.AsType[E](err)
		return ok && holds(e)
	}
}

func runs(ctx context.Context, s *session.Session) error {
	_, err := s.RunText(ctx, "one")
	return err
}

const (
	broken  = "replies: [{error: {class: auth, code: key, message: no key}}]"
	badCall = "replies: [{calls: [{name: echo, input: {text: 7}}]}]"
	rounds  = "replies: [{calls: [{name: echo, input: {text: hi}}], usage: {output: 9}, repeat: true}]"
	silent  = "replies: [{text: done, delay: 5m}]"
	prose   = "replies: [{text: prose, repeat: true}]"
)

// The same failure returns the same error wherever a session runs.
func TestErrorsAreTheSameInProcessAndInADeployment(t *testing.T) {
	asking := events.Config{Rules: []events.Rule{{Tool: "*", Action: events.RuleAsk}}}
	for name, tc := range map[string]struct {
		script string
		config events.Config
		code   engine.Config
		do     func(context.Context, *session.Session) error
		want   func(error) bool
	}{
		"ErrInvalidState": {
			script: echoes, do: func(ctx context.Context, s *session.Session) error { return s.Cancel(ctx, "") },
			want: as(func(e *session.InvalidStateError) bool {
				return errors.Is(e, session.ErrInvalidState) && e.Reason == "nothing_to_cancel"
			}),
		},
		"ErrInvalidState of input without items": {
			script: echoes, do: func(ctx context.Context, s *session.Session) error { return s.Send(ctx, session.Steer) },
			want: as(func(e *session.InvalidStateError) bool { return e.Reason == "empty_input" }),
		},
		"ErrCancelled": {
			script: silent, do: func(ctx context.Context, s *session.Session) error {
				ctx, cancel := context.WithTimeout(ctx, time.Minute)
				defer cancel()
				return runs(ctx, s)
			},
			want: as(func(e *session.CancelledError) bool {
				return errors.Is(e, session.ErrCancelled) && e.Reason == "deadline" && e.Stage == "model" && e.Partial != nil
			}),
		},
		"ErrClosed": {
			script: echoes, do: func(ctx context.Context, s *session.Session) error {
				_ = s.Close(ctx)
				return runs(ctx, s)
			},
			want: is(session.ErrClosed),
		},
		"ErrLeft": {
			script: silent, do: func(ctx context.Context, s *session.Session) error {
				turn, err := s.Submit(ctx, session.Input{Items: []content.Item{content.UserText("one")}})
				if err != nil {
					return err
				}
				time.AfterFunc(time.Second, turn.Close)
				_, err = turn.Wait(ctx)
				return err
			},
			want: is(session.ErrLeft),
		},
		"ApprovalPendingError": {
			script: echoes, config: asking, do: runs,
			want: as(func(e *session.ApprovalPendingError) bool { return len(e.Approvals) == 1 && e.Partial != nil }),
		},
		"MaxTurnsError": {
			script: rounds, config: events.Config{Limits: events.Limits{MaxRounds: 1}}, do: runs,
			want: as(func(e *session.MaxTurnsError) bool { return e.Max == 1 && e.Partial != nil }),
		},
		"UsageLimitError": {
			script: rounds, config: events.Config{Limits: events.Limits{OutputTokens: 10}}, do: runs,
			want: as(func(e *session.UsageLimitError) bool {
				return e.Kind == events.LimitOutputTokens && e.Used == 18 && e.Limit == 10 && e.Partial != nil
			}),
		},
		"ProviderError": {
			script: broken, do: runs,
			want: as(func(e *session.ProviderError) bool {
				return e.Class == content.ClassAuth && e.Code == "key" && e.Attempts == 1 && e.Partial != nil
			}),
		},
		"ToolError": {
			script: badCall, config: events.Config{FailRun: true}, do: runs,
			want: as(func(e *session.ToolError) bool {
				return e.Name == "echo" && e.Call != "" && e.Code != "" && e.Partial != nil
			}),
		},
		"OutputError": {
			script: prose, config: events.Config{Output: &events.Output{Schema: []byte(`{"type":"object"}`), Repairs: -1}}, do: runs,
			want: as(func(e *session.OutputError) bool { return e.Message != "" && e.Partial != nil }),
		},
		"HookTerminatedError": {
			script: echoes, code: engine.Config{Hooks: []extension.Hook{guard{}}}, do: runs,
			want: as(func(e *session.HookTerminatedError) bool {
				return e.Hook == "guard" && e.Point == extension.PreLlmCall && e.Reason == "no" && e.Partial != nil
			}),
		},
		"VerifyExhaustedError": {
			script: prose, do: func(ctx context.Context, s *session.Session) error {
				fails := function(func(context.Context) (bool, string, error) { return false, "broken", nil })
				_, err := s.RunTask(ctx, session.Task{Goal: "one", Verifier: fails})
				return err
			},
			want: as(func(e *session.VerifyExhaustedError) bool { return e.Output == "broken" && e.Result.Attempts == 1 }),
		},
		"MutatorError": {
			script: echoes, code: engine.Config{Mutators: []extension.Mutator{clumsy{}}}, do: runs,
			want: as(func(e *session.MutatorError) bool {
				return e.Mutator == "clumsy" && e.Point == extension.BeforeModel && e.Partial != nil
			}),
		},
	} {
		t.Run(name, func(t *testing.T) {
			for host, open := range hosts {
				t.Run(host, func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
						defer cancel()
						if err := tc.do(ctx, open(t, ctx, tc.script, tc.config, tc.code)); !tc.want(err) {
							t.Errorf("%T: %v", err, err)
						}
					})
				})
			}
		})
	}
}
