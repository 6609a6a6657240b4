package tool_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/tool"
)

func TestAttemptsFollowTheDeclaredEffects(t *testing.T) {
	t.Parallel()
	down, lost := &tool.InterruptedError{Err: errors.New("x: refused")}, &tool.InterruptedError{Sent: true, Err: errors.New("x: cut")}
	for _, c := range []struct {
		effects content.Effects
		errs    []error // of the attempts; then they succeed
		want    string
		tries   int
	}{
		{content.Once, nil, "ok", 1},
		{content.Once, []error{errors.New("no")}, "no", 1},
		{content.Once, []error{down, down}, "ok", 3},
		{content.Once, []error{down, lost}, "outcome_unknown x: cut; whether the call had an effect is not known", 2},
		{content.Once, []error{down, down, down, down}, "unavailable x: refused; nothing was done", 4},
		{content.ReadOnly, []error{lost, lost, down}, "ok", 4},
		{content.Idempotent, []error{lost, lost, down, lost}, "unavailable x: cut", 4},
	} {
		synctest.Test(t, func(t *testing.T) {
			tries := 0
			out, err := tool.Attempt(t.Context(), c.effects, func(context.Context) (tool.Output, error) {
				if tries++; tries <= len(c.errs) {
					return tool.Output{}, c.errs[tries-1]
				}
				return tool.Text("ok"), nil
			})
			got := "ok"
			if e, ok := errors.AsType[*tool.Error](err); ok {
				got = e.Code + " " + e.Message
			} else if err != nil {
				got = err.Error()
			} else if out.Parts[0].Text != "ok" {
				got = fmt.Sprint(out)
			}
			if got != c.want || tries != c.tries {
				t.Errorf("%q %v: %q after %d attempts, want %q after %d", c.effects, c.errs, got, tries, c.want, c.tries)
			}
		})
	}
}

func TestAttemptsWaitAsLongAsTheServiceSays(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		for after, want := range map[time.Duration][2]time.Duration{
			0: {100 * time.Millisecond, time.Second}, 7 * time.Second: {7 * time.Second, 7 * time.Second}, time.Hour: {30 * time.Second, 30 * time.Second},
		} {
			var at []time.Duration
			_, err := tool.Attempt(t.Context(), content.Once, func(context.Context) (tool.Output, error) {
				if at = append(at, time.Since(start)); len(at) == 1 {
					return tool.Output{}, &tool.InterruptedError{After: after, Err: errors.New("busy")}
				}
				return tool.Output{}, nil
			})
			if waited := at[1] - at[0]; err != nil || waited < want[0] || waited > want[1] {
				t.Errorf("%v: waited %v, %v", after, waited, err)
			}
		}
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, errors.New("over"))
		defer cancel()
		_, err := tool.Attempt(ctx, content.Once, func(context.Context) (tool.Output, error) {
			return tool.Output{}, &tool.InterruptedError{After: time.Minute, Err: errors.New("busy")}
		})
		if err == nil || err.Error() != "over" {
			t.Errorf("when its context ended: %v", err)
		}
	})
}

func TestAnswersBecomeParts(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		kind, data string
		want       content.Part
	}{
		{"application/json", `{"a":1}`, content.StructuredPart([]byte(`{"a":1}`))},
		{"application/ld+json; charset=utf-8", `[]`, content.StructuredPart([]byte(`[]`))},
		{"application/json", `{"a":`, content.TextPart(`{"a":`)},
		{"", "hi", content.TextPart("hi")},
		{"text/plain; charset=x", "hi\xff", content.TextPart("hi\xff")},
		{"", "\xff\x00", content.Part{Kind: content.FileKind, Media: &content.Media{Modality: "document", MIME: "application/octet-stream", Bytes: []byte("\xff\x00")}}},
		{"application/pdf", "\xff", content.Part{Kind: content.FileKind, Media: &content.Media{Modality: "document", MIME: "application/pdf", Bytes: []byte("\xff")}}},
		{"image/png", "png", content.Part{Kind: content.MediaKind, Media: &content.Media{Modality: "image", MIME: "image/png", Bytes: []byte("png")}}},
	} {
		if diff := cmp.Diff([]content.Part{c.want}, tool.Answer(c.kind, []byte(c.data)).Parts); diff != "" {
			t.Errorf("%s %q (-want +got):\n%s", c.kind, c.data, diff)
		}
	}
	if out := tool.Answer("application/json", nil); len(out.Parts) != 0 {
		t.Errorf("nothing becomes %v", out.Parts)
	}
}

func TestDescriptionsBecomeSpecs(t *testing.T) {
	t.Parallel()
	s, err := tool.Description{Description: "d", Effects: "read_only", Exclusive: true, Timeout: "5s"}.Spec("x", time.Minute)
	if err != nil || s.Effects != content.ReadOnly || !s.Exclusive || s.Timeout != 5*time.Second || string(s.InputSchema) == "" {
		t.Errorf("spec = %+v, %v", s, err)
	}
	if s, err := (tool.Description{Description: "d", Effects: "none"}).Spec("x", time.Minute); err != nil || s.Effects != content.Once || s.Timeout != time.Minute {
		t.Errorf("spec = %+v, %v", s, err)
	}
	for _, d := range []tool.Description{{}, {Description: "d", Effects: "some"}, {Description: "d", Timeout: "5"}, {Description: "d", Timeout: "-5s"}} {
		if s, err := d.Spec("x", 0); err == nil {
			t.Errorf("%+v becomes %+v", d, s)
		}
	}
}
