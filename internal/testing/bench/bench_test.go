package bench

import (
	"testing"
	"time"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/model"
)

// A benchmark whose calls fail measures nothing.
func TestAFailedCallFailsTheBenchmark(t *testing.T) {
	t.Parallel()
	for status, want := range map[content.Status]string{
		content.StatusOK:    "",
		content.StatusError: "a call of session s ended with status error: Tool not found: noop",
	} {
		m := &benchModel{meter: &meter{}, rounds: 1, open: 1, began: make(map[content.SessionID]time.Time), done: make(chan error, 1)}
		request := model.Request{Session: "s", Round: 1}
		if _, err := m.Call(t.Context(), request, nil); err != nil {
			t.Fatal(err)
		}
		request.Round = 2
		request.Transcript = []content.Item{content.ResultItem(content.NewResult("c1", "noop", status, "Tool not found: noop"))}
		if _, err := m.Call(t.Context(), request, nil); err != nil {
			t.Fatal(err)
		}
		got := ""
		if err := <-m.done; err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%s: %q, want %q", status, got, want)
		}
	}
}

// The output has the medians of the runs.
func TestMediansAndRatios(t *testing.T) {
	t.Parallel()
	m := medians([]Figures{{P50us: 9, CPUus: 1}, {P50us: 1, CPUus: 2}, {P50us: 2}, {P50us: 4, CPUus: 7}})
	if want := (Figures{P50us: 3, CPUus: 1.5}); m != want {
		t.Errorf("medians = %+v, want %+v", m, want)
	}
	if got, want := m.over(Figures{P50us: 2}), (Figures{P50us: 1.5}); got != want {
		t.Errorf("over = %+v, want %+v", got, want)
	}
}
