package modeltest

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/model"
)

func (s suite) typedErrors(t testing.TB) {
	if s.Failing == nil {
		return
	}
	checkError(t, fails(t, s.Failing))
}

func (s suite) cutReply(t testing.TB) {
	if s.Cut == nil {
		return
	}
	err := fails(t, s.Cut)
	checkError(t, err)
	if e, ok := errors.AsType[*model.Error](err); ok && !e.Class.Retryable() {
		t.Errorf("a response that was cut off has class %s, want a retryable one: %v", e.Class, err)
	}
}

// fails makes a call, which must fail.
func fails(t testing.TB, make func(testing.TB) (model.Model, model.Request)) error {
	t.Helper()
	m, r := make(t)
	reply, err := m.Call(t.Context(), r, func(content.Delta) {})
	if err == nil {
		t.Fatalf("Call(%q) = %+v, want a failure", prompt(r), reply)
	}
	return err
}

func (s suite) keptSecret(t testing.TB) {
	if s.Secret == "" {
		return
	}
	s.hides(t, "the model", s.New(t))
	for _, make := range []func(testing.TB) (model.Model, model.Request){s.Failing, s.Cut} {
		if make == nil {
			continue
		}
		m, r := make(t)
		if _, err := m.Call(t.Context(), r, func(content.Delta) {}); err != nil {
			s.hides(t, "the failure", err)
		}
	}
}

// hides checks that no printed form of v, or of anything that it wraps, contains the secret.
func (s suite) hides(t testing.TB, what string, v any) {
	t.Helper()
	forms := []string{fmt.Sprintf("%v", v), fmt.Sprintf("%+v", v), fmt.Sprintf("%#v", v), fmt.Sprintf("%q", v)}
	if raw, err := json.Marshal(v); err == nil {
		forms = append(forms, string(raw))
	}
	for _, f := range forms {
		if strings.Contains(f, s.Secret) {
			t.Errorf("%s shows the key: %s", what, strings.ReplaceAll(f, s.Secret, "[THE KEY]"))
			return
		}
	}
	if err, ok := v.(error); ok {
		if inner := errors.Unwrap(err); inner != nil {
			s.hides(t, what, inner)
		}
	}
}
