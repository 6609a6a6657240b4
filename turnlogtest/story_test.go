package turnlogtest_test

import (
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/turnlog/turnlog/actor"
	"github.com/turnlog/turnlog/policy/permission"
	"github.com/turnlog/turnlog/tool"
	"github.com/turnlog/turnlog/turnlogtest"
)

func TestWeather(t *testing.T) {
	t.Parallel()
	d := turnlogtest.New(t, turnlogtest.Tools(weather(tool.ReadOnly())))
	s := d.Script(`replies: [{calls: [{name: weather, input: {city: Oslo}}]}, {text: "It is {{(index .Results 0).Text}}."}]`)
	s.Say("How is the weather in Oslo?")
	s.ExpectCalls(`weather {"city":"Oslo"} → ok: sunny`)
	s.ExpectReply("It is sunny.")
}

func TestAnApprovalWaits(t *testing.T) {
	t.Parallel()
	asking := permission.Default() // asks about every tool that is not read-only
	turnlogtest.Bubble(t, func(_ *testing.T, d *turnlogtest.Deployment) {
		s := d.Script(forecast)
		s.Say("How is the weather in Oslo?")
		d.Advance(10 * time.Minute)
		d.KillNode()
		s.Approve("weather")
		s.ExpectReply("It is sunny.")
	}, turnlogtest.Tools(weather()), turnlogtest.Node(func(c *actor.Config) { c.Policy = &asking }))
}

func TestNoCrashIsSeen(t *testing.T) {
	t.Parallel()
	turnlogtest.EveryCrash(t, func(_ *testing.T, d *turnlogtest.Deployment) {
		s := d.Script(forecast)
		s.Say("How is the weather in Oslo?")
		s.ExpectReply("It is sunny.")
	}, turnlogtest.Tools(weather(tool.ReadOnly())))
}

func TestAgentFile(t *testing.T) {
	t.Parallel()
	d := turnlogtest.New(t, turnlogtest.Agents("testdata/agents"), turnlogtest.Tools(weather()))
	s := d.Script(forecast, turnlogtest.Agent("guide"))
	s.Say("How is the weather in Oslo?")
	s.ExpectCalls(`weather {"city":"Oslo"} → error: Tool not found: weather`) // the file denies it
}

// TestThePagesShowTheseTests compares the Go code of the pages with this file.
func TestThePagesShowTheseTests(t *testing.T) {
	t.Parallel()
	source, err := os.ReadFile("story_test.go")
	if err != nil {
		t.Fatal(err)
	}
	shown := 0
	for _, page := range []string{"../README.md", "../docs/testing.md"} {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, block := range regexp.MustCompile("(?s)```go\n(func Test.*?)```").FindAllStringSubmatch(string(text), -1) {
			shown++
			if !strings.Contains(string(source), block[1]) {
				t.Errorf("%s shows a test that is not in story_test.go:\n%s", page, block[1])
			}
		}
	}
	if shown < 5 {
		t.Errorf("the pages show %d tests, want 5", shown)
	}
}
