package turnlogtest_test

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/turnlog/turnlog/actor"
	"github.com/turnlog/turnlog/policy/permission"
	"github.com/turnlog/turnlog/tool"
	"github.com/turnlog/turnlog/turnlogtest"
)

func TestMain(m *testing.M) { turnlogtest.Main(m) }

const forecast = `
replies:
  - calls: [{name: weather, input: {city: Oslo}}]
  - text: "It is {{(index .Results 0).Text}}."
`

type place struct {
	City string `json:"city"`
}

func weather(options ...tool.Option) tool.Tool {
	t, err := tool.Func("weather", "The weather in a city.", func(_ context.Context, _ place) (string, error) {
		return "sunny", nil
	}, options...)
	if err != nil {
		panic(err)
	}
	return t
}

func TestExpectations(t *testing.T) {
	t.Parallel()
	d := turnlogtest.New(t, turnlogtest.Tools(weather(tool.ReadOnly())))
	s := d.Script(forecast)
	s.Say("How is the weather in Oslo?")
	s.ExpectTranscript(
		"user: How is the weather in Oslo?",
		`assistant: [weather {"city":"Oslo"}]`,
		"tool: weather ok: sunny",
		"assistant: It is sunny.",
	)
	s.ExpectGolden("weather")
}

func TestApprovals(t *testing.T) {
	t.Parallel()
	asks := permission.Default()
	asking := turnlogtest.Node(func(c *actor.Config) { c.Policy = &asks })
	turnlogtest.Bubble(t, func(_ *testing.T, d *turnlogtest.Deployment) {
		s := d.Script(forecast)
		s.Say("How is the weather in Oslo?")
		s.ExpectApproval("weather")
		d.Advance(10 * time.Minute)
		s.Approve("weather")
		s.ExpectReply("It is sunny.")

		s = d.Script(forecast)
		s.Say("And in Bergen?")
		s.Deny("weather", "not now")
		s.ExpectTranscript("user: And in Bergen?", `assistant: [weather {"city":"Oslo"}]`,
			"tool: weather denied: Permission denied: not now", "assistant: It is Permission denied: not now.")

		s = d.Script(forecast)
		s.Say("How is the weather in Oslo?")
		s.ApproveWith("weather", `{"city":"Bergen"}`)
		s.ExpectReply("It is sunny.")
	}, turnlogtest.Tools(weather()), asking)
}

func TestAKilledWorkerIsReplaced(t *testing.T) {
	t.Parallel()
	var d *turnlogtest.Deployment
	var runs atomic.Int64
	dies, err := tool.Func("weather", "The weather in a city.", func(ctx context.Context, _ place) (string, error) {
		if runs.Add(1) == 1 {
			d.KillWorker()
			<-ctx.Done()
		}
		return "sunny", nil
	}, tool.ReadOnly())
	if err != nil {
		t.Fatal(err)
	}
	turnlogtest.Bubble(t, func(_ *testing.T, deployment *turnlogtest.Deployment) {
		d = deployment
		s := d.Script(forecast)
		s.Say("How is the weather in Oslo?")
		s.ExpectReply("It is sunny.")
	}, turnlogtest.Tools(dies))
	if runs.Load() != 2 {
		t.Errorf("the tool ran %d times, want 2", runs.Load())
	}
}

// scope ends what it started before the benchmark does.
type scope struct {
	testing.TB

	cleanups []func()
}

func (s *scope) Cleanup(f func()) { s.cleanups = append(s.cleanups, f) }

func (s *scope) end() {
	for _, f := range slices.Backward(s.cleanups) {
		f()
	}
}

// BenchmarkNew prints how long a test waits for its deployment, and how long for it and a turn with a call.
func BenchmarkNew(b *testing.B) {
	for name, turn := range map[string]bool{"alone": false, "turn": true} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				t := &scope{TB: b}
				d := turnlogtest.New(t, turnlogtest.Tools(weather(tool.ReadOnly())))
				if turn {
					talk(d)
				}
				b.StopTimer()
				t.end()
				b.StartTimer()
			}
		})
	}
}
