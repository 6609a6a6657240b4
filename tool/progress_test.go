package tool_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/turnlog/turnlog/tool"
)

// report is a progress report and its time.
type report struct {
	Text  string
	Share float64
	At    time.Duration
}

// listen runs a call of t and returns its reports.
func listen(t *testing.T, talk func(progress func(string, float64))) []report {
	t.Helper()
	var got []report
	start := time.Now()
	tool.Invoke(t.Context(), plain{call: func(_ context.Context, c tool.Call) (tool.Output, error) {
		talk(c.Progress)
		return tool.Output{}, nil
	}}, tool.Call{Progress: func(text string, share float64) { got = append(got, report{text, share, time.Since(start)}) }})
	return got
}

func TestProgressIsCleaned(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var zero float64
		got := listen(t, func(progress func(string, float64)) {
			progress("a\xffb", -1)
			<-time.After(time.Second)
			progress("half", 0.5)
			<-time.After(time.Second)
			progress("over", 7)
			<-time.After(time.Second)
			progress("unknown", zero/zero)
		})
		want := []report{{"a\uFFFDb", 0, 0}, {"half", 0.5, time.Second}, {"over", 1, 2 * time.Second}, {"unknown", 0, 3 * time.Second}}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
	})
}

func TestProgressIsRateLimitedAndKeepsTheLastReport(t *testing.T) {
	t.Parallel()
	const ms = time.Millisecond
	for name, row := range map[string]struct {
		talk func(progress func(string, float64))
		want []report
	}{
		"a burst": {func(progress func(string, float64)) {
			for _, text := range []string{"a", "b", "c"} {
				progress(text, 0)
			}
		}, []report{{"a", 0, 0}, {"c", 0, 0}}},
		"a stream": {func(progress func(string, float64)) {
			for i := range 100 {
				progress("x", float64(i)/100)
				<-time.After(ms)
			}
		}, []report{{"x", 0, 0}, {"x", 0.99, 100 * ms}}},
		"a waiting word is reported in time": {func(progress func(string, float64)) {
			progress("a", 0)
			progress("b", 0)
			<-time.After(time.Minute)
		}, []report{{"a", 0, 0}, {"b", 0, 100 * ms}}},
		"nothing": {func(func(string, float64)) {}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				if diff := cmp.Diff(row.want, listen(t, row.talk)); diff != "" {
					t.Errorf("progress (-want +got):\n%s", diff)
				}
			})
		})
	}
}
