package record_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/model"
	"github.com/turnlog/turnlog/model/modeltest"
	"github.com/turnlog/turnlog/model/record"
	"github.com/turnlog/turnlog/tool"
)

func quiet(content.Delta) {}

// rich replies with everything that a reply can contain. The prompt "fail" fails until the third attempt.
func rich() model.Model {
	return modeltest.NewFake("rich:1", func(_ context.Context, r model.Request) (model.Reply, error) {
		last := r.Transcript[len(r.Transcript)-1].Text()
		if last == "fail" && r.Attempt < 3 {
			return model.Reply{}, &model.Error{Class: content.ClassRateLimit, Code: "429", Message: "slow down", RetryAfter: time.Second, Usage: content.Usage{InputTokens: 1}}
		}
		call := content.CallPart(content.ToolCall{ID: "p1", Name: "read", Input: json.RawMessage(`{"path":"a"}`), ProviderID: "p1"})
		call.Reasoning = &content.Reasoning{Signature: []byte{0, 255}}
		return model.Reply{
			Items: []content.Item{content.NewItem(
				content.Assistant, content.Part{Kind: content.ReasoningKind, Name: "rich", Text: "Hm.", Reasoning: &content.Reasoning{Encrypted: []byte{1, 254}}},
				content.TextPart("You said "+last+", which is long enough for more than one delta."), call,
			)},
			Usage: content.Usage{InputTokens: 3, OutputTokens: 2}, FinishReason: content.ToolCalls, Model: "rich-1-2026", ResponseID: "resp_1",
		}, nil
	})
}

// recorded records the requests and returns the file of the cassette.
func recorded(t testing.TB, inner model.Model, cfg record.Config, requests ...model.Request) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "tape.jsonl")
	m := open(t, file, inner, cfg)
	for _, r := range requests {
		_, _ = m.Call(t.Context(), r, quiet) // a failure is recorded, too
	}
	return file
}

func open(t testing.TB, file string, inner model.Model, cfg record.Config) *record.Model {
	t.Helper()
	m, err := record.Open(file, inner, cfg)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestRecordAndReplayConform(t *testing.T) {
	t.Parallel()
	requests := []model.Request{modeltest.Ask("Say hello."), modeltest.Ask("And more.")}
	suite := modeltest.Factory{Requests: requests, Features: modeltest.Features{Deterministic: true}}
	t.Run("record", func(t *testing.T) {
		t.Parallel()
		suite := suite
		suite.New = func(t testing.TB) model.Model {
			return open(t, filepath.Join(t.TempDir(), "tape.jsonl"), rich(), record.Config{})
		}
		suite.Failing = func(t testing.TB) (model.Model, model.Request) { return suite.New(t), modeltest.Ask("fail") }
		modeltest.Run(t, suite)
	})
	t.Run("replay", func(t *testing.T) {
		t.Parallel()
		suite := suite
		suite.New = func(t testing.TB) model.Model {
			return open(t, recorded(t, rich(), record.Config{}, requests...), nil, record.Config{})
		}
		suite.Failing = func(t testing.TB) (model.Model, model.Request) { return suite.New(t), modeltest.Ask("something else") }
		modeltest.Run(t, suite)
	})
}

func TestReplayRepeatsTheModelsReplies(t *testing.T) {
	t.Parallel()
	r := modeltest.Ask("hello")
	file := recorded(t, rich(), record.Config{}, r)
	want, err := rich().Call(t.Context(), r, quiet)
	if err != nil {
		t.Fatal(err)
	}
	m := open(t, file, nil, record.Config{})
	later := r
	later.Session, later.Turn, later.Round, later.Attempt = "another", content.TurnIDFor(7), 3, 5
	later.Metadata = content.Metadata{}.With("trace", "x")
	later.Transcript = content.CloneItems(r.Transcript)
	later.Transcript[0].ID, later.Transcript[0].CreatedAt = "i9", 77
	for _, each := range []model.Request{r, later} {
		got, err := m.Call(t.Context(), each, quiet)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("-recorded +replayed\n%s", diff)
		}
	}
	if got := m.Capabilities(); got != rich().Capabilities() {
		t.Errorf("capabilities %+v", got)
	}
	if data, err := os.ReadFile(file); err != nil || string(m.Source()) != string(data) {
		t.Errorf("Source = %q, %v", m.Source(), err)
	}
	if m.Name() != "replay:tape.jsonl" {
		t.Errorf("name %q", m.Name())
	}
}

func TestFailuresAreReplayedAtTheirAttempt(t *testing.T) {
	t.Parallel()
	r := modeltest.Ask("fail")
	second, third := r, r
	second.Attempt, third.Attempt = 2, 3
	m := open(t, recorded(t, rich(), record.Config{}, r, second, third), nil, record.Config{})
	for attempt := 1; attempt <= 5; attempt++ {
		r.Attempt = attempt
		_, err := m.Call(t.Context(), r, quiet)
		if attempt > 2 {
			if err != nil {
				t.Errorf("attempt %d: %v", attempt, err)
			}
			continue
		}
		want := model.Error{Class: content.ClassRateLimit, Code: "429", Message: "slow down", RetryAfter: time.Second, Usage: content.Usage{InputTokens: 1}}
		if e, ok := errors.AsType[*model.Error](err); !ok || *e != want {
			t.Errorf("attempt %d: %v, want %+v", attempt, err, want)
		}
	}
}

func TestCallIDsDoNotCount(t *testing.T) {
	t.Parallel()
	with := func(id content.CallID) model.Request {
		r := modeltest.Ask("go")
		r.Transcript = append(r.Transcript,
			content.NewItem(content.Assistant, content.CallPart(content.ToolCall{ID: id, ProviderID: string(id), Place: "t1-r1-c1", Name: "read", Input: json.RawMessage(`{"b":1,"a":2}`)})),
			content.NewItem(content.Tool, content.ResultPart(content.NewResult(id, "read", content.StatusOK, "x"))))
		return r
	}
	m := open(t, recorded(t, rich(), record.Config{}, with("one")), nil, record.Config{})
	if _, err := m.Call(t.Context(), with("two"), quiet); err != nil {
		t.Error(err)
	}
}

func TestChangedRequestFailsWithADiff(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("The same words again. ", 40)
	r := modeltest.Ask("Read the file a.txt, please.")
	r.Transcript = append([]content.Item{content.SystemText(long + "Be brief.")}, r.Transcript...)
	r.Tools = []tool.Spec{{Name: "read", Description: "Read a file."}}
	m := open(t, recorded(t, rich(), record.Config{}, modeltest.Ask("quite another"), r), nil, record.Config{})

	drifted := r
	drifted.Transcript = []content.Item{content.SystemText(long + "Be thorough."), content.UserText("Read the file b.txt, please.")}
	_, err := m.Call(t.Context(), drifted, quiet)
	e, ok := errors.AsType[*model.Error](err)
	if !ok || e.Class != content.ClassExhausted || e.Code != "not_recorded" {
		t.Fatalf("Call = %v, want class exhausted", err)
	}
	for _, want := range []string{
		"the most similar of 2 is number 2", "Be brief.", "Be thorough.",
		`-     "text": "Read the file a.txt, please."`, `+     "text": "Read the file b.txt, please."`,
	} {
		if !strings.Contains(e.Message, want) {
			t.Errorf("the message lacks %q:\n%s", want, e.Message)
		}
	}
	if _, removed, _ := strings.Cut(e.Message, "\n-"); !strings.HasPrefix(removed, "…") {
		t.Errorf("the first removed line is not shortened:\n%s", e.Message)
	}
	if len(e.Message) > 3000 {
		t.Errorf("the message has %d bytes:\n%s", len(e.Message), e.Message)
	}
	for name, change := range map[string]func(*model.Request){
		"a tool's schema": func(r *model.Request) {
			r.Tools = []tool.Spec{{Name: "read", Description: "Read a file.", InputSchema: json.RawMessage(`{}`)}}
		},
		"the answer's schema": func(r *model.Request) { r.Schema = json.RawMessage(`{"type":"object"}`) },
		"one item more":       func(r *model.Request) { r.Transcript = append(r.Transcript, content.UserText("And?")) },
	} {
		other := r
		change(&other)
		if _, err := m.Call(t.Context(), other, quiet); err == nil {
			t.Errorf("%s: replied all the same", name)
		}
	}
}

func TestTheNearestRequestAnswers(t *testing.T) {
	t.Parallel()
	file := recorded(t, rich(), record.Config{}, modeltest.Ask("Say hello to Ada."), modeltest.Ask("Multiply 3 by 5."))
	want, err := open(t, file, nil, record.Config{}).Call(t.Context(), modeltest.Ask("Say hello to Ada."), quiet)
	if err != nil {
		t.Fatal(err)
	}
	asked := modeltest.Ask("Say hello to Ada, please.")
	got, err := open(t, file, nil, record.Config{Nearest: true}).Call(t.Context(), asked, quiet)
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("the nearest reply: %v (-want +got):\n%s", err, diff)
	}
	_, err = open(t, file, nil, record.Config{}).Call(t.Context(), asked, quiet)
	if failed, ok := errors.AsType[*model.Error](err); !ok || failed.Code != "not_recorded" {
		t.Errorf("strictly: %v, want not_recorded", err)
	}
}

func TestALongDiffIsCut(t *testing.T) {
	t.Parallel()
	var much []content.Item
	for i := range 100 {
		much = append(much, content.UserText(strings.Repeat("x", 100*i)))
	}
	m := open(t, recorded(t, rich(), record.Config{}, modeltest.Ask("hi")), nil, record.Config{})
	r := modeltest.Ask("hi")
	r.Transcript = append(r.Transcript, much...)
	_, err := m.Call(t.Context(), r, quiet)
	if err == nil || !strings.Contains(err.Error(), " more lines") || len(err.Error()) > 5000 || !strings.Contains(err.Error(), "xxx…") {
		t.Errorf("Call = %v", err)
	}
}

func TestAnEmptyCassetteIsReported(t *testing.T) {
	t.Parallel()
	m, err := record.Parse("x", []byte(`{"turnlog_cassette":1,"model":"m","capabilities":{}}`), record.Config{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := m.Call(t.Context(), modeltest.Ask("hi"), quiet); err == nil || !strings.Contains(err.Error(), "cassette is empty") {
		t.Errorf("Call = %v", err)
	}
}

func TestSecretsAreNotWritten(t *testing.T) {
	t.Parallel()
	const canary = "sk-canary-0123456789"
	cfg := record.Config{Secrets: []string{canary, "short", ""}}
	leaky := modeltest.NewFake("leaky", func(_ context.Context, r model.Request) (model.Reply, error) {
		if r.Transcript[0].Text() == "fail" {
			return model.Reply{}, &model.Error{Class: content.ClassAuth, Message: "bad key " + canary}
		}
		return modeltest.Text("the key is " + canary), nil
	})
	r := modeltest.Ask("what is " + canary + "? short")
	file := recorded(t, leaky, cfg, r, modeltest.Ask("fail"))
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(data), canary) || !strings.Contains(string(data), "what is [secret]? short") {
		t.Errorf("the cassette holds\n%s", data)
	}
	reply, err := open(t, file, nil, cfg).Call(t.Context(), r, quiet)
	if err != nil || reply.Items[0].Text() != "the key is [secret]" {
		t.Errorf("Call = %+v, %v", reply, err)
	}
}

func TestTheFileIsReplacedAtTheFirstCall(t *testing.T) {
	t.Parallel()
	file := recorded(t, rich(), record.Config{}, modeltest.Ask("old"))
	before, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	m := open(t, file, rich(), record.Config{})
	if still, _ := os.ReadFile(file); string(still) != string(before) {
		t.Error("opening changed the file")
	}
	for range 2 { // the same exchange is written once
		if _, err := m.Call(t.Context(), modeltest.Ask("new"), quiet); err != nil {
			t.Fatal(err)
		}
	}
	after, err := os.ReadFile(file)
	if err != nil || strings.Contains(string(after), `"old"`) || strings.Count(string(after), "\n") != 2 {
		t.Errorf("%v\n%s", err, after)
	}
	if left, _ := filepath.Glob(filepath.Join(filepath.Dir(file), ".tape*")); left != nil {
		t.Errorf("left over: %v", left)
	}
}

func TestCanceledCallIsNotRecorded(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "tape.jsonl")
	ctx, cancel := context.WithCancel(t.Context())
	m := open(t, file, modeltest.NewFake("slow", func(context.Context, model.Request) (model.Reply, error) {
		cancel()
		return model.Reply{}, &model.Error{Class: content.ClassNetwork, Message: "cut"}
	}), record.Config{})
	if _, err := m.Call(ctx, modeltest.Ask("hi"), quiet); err == nil {
		t.Error("no error")
	}
	if _, err := os.Stat(file); err == nil {
		t.Error("something was recorded")
	}
}

func TestInvalidCassettesAreRejected(t *testing.T) {
	t.Parallel()
	const head = `{"turnlog_cassette":1,"model":"m","capabilities":{}}` + "\n"
	const exchange = `{"key":"k","attempt":1,"reply":{"items":[{"kind":"assistant","parts":[{"kind":"text","text":"Hi"}]}],"finish_reason":"completed"},"request":{}}`
	for data, want := range map[string]string{
		"":                             "empty",
		"hello":                        "line 1: not the header",
		`{"model":"m"}`:                "line 1: not the header",
		`{"turnlog_cassette":9}`:       "format 9, but this program reads 1",
		head + "\n{":                   "line 3: not an exchange",
		head + `{"key":"k"}`:           "want a key and either",
		head + `{"key":"k","color":1}`: `unknown field "color"`,
		head + `{"key":"k","key":"j"}`: "line 2: not an exchange: Duplicate key",
		head + exchange + exchange:     "line 2: not an exchange",
		head + exchange + "\n" + strings.Replace(exchange, "Hi", "Ho", 1): "line 3: attempt 1 of this request is also on an earlier line",
	} {
		if m, err := record.Parse("t.jsonl", []byte(data), record.Config{}); m != nil || err == nil || !strings.Contains(err.Error(), want) || !strings.HasPrefix(err.Error(), "cassette t.jsonl: ") {
			t.Errorf("Parse(%q) = %v, want %q", data, err, want)
		}
	}
	for file, want := range map[string]string{"": "no cassette", "none.jsonl": "cassette: open none.jsonl: no such file or directory"} {
		if _, err := record.Open(file, nil, record.Config{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Open(%q) = %v, want %q", file, err, want)
		}
	}
	if _, err := record.Open("not/there/x.jsonl", rich(), record.Config{}); err == nil || !strings.Contains(err.Error(), "no directory not/there") {
		t.Errorf("Open = %v", err)
	}
}
