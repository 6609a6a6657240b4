package main

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/turnlog/turnlog/internal/cli"
	"github.com/turnlog/turnlog/model/modeltest"
)

const canary = "key-canary-0123456789"

// within runs the binary in an environment and checks its exit code.
func within(t *testing.T, vars env, code int, args ...string) *program {
	t.Helper()
	p := prepare(t, strings.NewReader(""), vars).start(t, args...)
	if got := p.end(t); got != code {
		t.Fatalf("turnlog %q exits with %d, want %d:\n%s%s", args, got, code, p.out, p.err)
	}
	if all := p.out.String() + p.err.String(); strings.Contains(all, canary) {
		t.Errorf("turnlog %q prints the key:\n%s", args, all)
	}
	return p
}

func TestModelsReportsWhatIsMissing(t *testing.T) {
	t.Parallel()
	p := within(t, nil, cli.CodeOK, "models")
	for _, want := range []string{"missing ANTHROPIC_API_KEY", "missing OPENAI_API_KEY", "missing GEMINI_API_KEY or GOOGLE_API_KEY", "scripted:FILE", "\nWithout --model: demo\n"} {
		if !strings.Contains(p.out.String(), want) {
			t.Errorf("no %q in\n%s", want, p.out)
		}
	}
	p = within(t, env{"OPENAI_API_KEY": canary, "OPENAI_BASE_URL": "http://me:" + canary + "@127.0.0.1:11434/v1", "GOOGLE_API_KEY": canary}, cli.CodeOK, "models")
	for _, want := range []string{"ready, OPENAI_API_KEY at http://127.0.0.1:11434/v1", "ready, GOOGLE_API_KEY", "\nWithout --model: gemini:gemini-flash-latest, since GOOGLE_API_KEY is set\n"} {
		if !strings.Contains(p.out.String(), want) {
			t.Errorf("no %q in\n%s", want, p.out)
		}
	}
	p = within(t, env{"ANTHROPIC_API_KEY": canary, "TURNLOG_MODEL": "demo"}, cli.CodeOK, "models", "-o", "json")
	var r modelsReport
	if err := json.Unmarshal([]byte(p.out.String()), &r); err != nil || r.Default != "demo" || r.Because != "TURNLOG_MODEL" || !r.Providers[0].Ready || r.Providers[1].Ready {
		t.Errorf("%v: %s", err, p.out)
	}
}

// geminiSays is an answer as the provider streams it.
const geminiSays = `data: {"candidates":[{"content":{"parts":[{"text":"Hello from afar."}]},"finishReason":"STOP"}],"modelVersion":"gemini-x"}` + "\n\n"

func TestAKeyInTheEnvironmentPicksTheModel(t *testing.T) {
	t.Parallel()
	s := modeltest.ServeOne(t, modeltest.Answer{Body: geminiSays})
	vars := env{"GEMINI_API_KEY": canary, "GOOGLE_GEMINI_BASE_URL": s.URL}
	p := within(t, vars, cli.CodeOK, "run", "hi")
	if !strings.Contains(p.out.String(), "Hello from afar.") {
		t.Errorf("out %s", p.out)
	}
	if want := "model gemini:gemini-flash-latest, because GEMINI_API_KEY is set; --model names another one\n"; !strings.HasPrefix(p.err.String(), want) {
		t.Errorf("err %q, want %q first", p.err, want)
	}
	if asked := s.Asked(); len(asked) != 1 || asked[0].Header.Get("X-Goog-Api-Key") != canary {
		t.Errorf("%d requests", len(asked))
	}
	if p := within(t, vars, cli.CodeOK, "run", "--model", scripted(t, oneReply), "hi"); !strings.Contains(p.out.String(), "Hello.") || strings.Contains(p.err.String(), "since") {
		t.Errorf("--model: out %s, err %s", p.out, p.err)
	}
	vars["TURNLOG_MODEL"] = scripted(t, oneReply)
	if p := within(t, vars, cli.CodeOK, "run", "hi"); !strings.Contains(p.out.String(), "Hello.") || !strings.Contains(p.err.String(), "because TURNLOG_MODEL is set") {
		t.Errorf("TURNLOG_MODEL: out %s, err %s", p.out, p.err)
	}
	vars["TURNLOG_MODEL"] = "gpt"
	if p := within(t, vars, cli.CodeUsage, "run", "hi"); !strings.Contains(p.err.String(), `TURNLOG_MODEL: model "gpt": unknown provider`) {
		t.Errorf("err %s", p.err)
	}
}

func TestAKeyThatIsMissingIsNamed(t *testing.T) {
	t.Parallel()
	p := within(t, nil, cli.CodeUsage, "run", "--model", "openai:gpt-5.5", "hi")
	if want := "model openai:gpt-5.5: OPENAI_API_KEY is not set in the environment of this process"; !strings.Contains(p.err.String(), want) {
		t.Errorf("err %s, want %s", p.err, want)
	}
}

func TestFurtherModelsAreAskedWhenTheFirstFails(t *testing.T) {
	t.Parallel()
	broken := scripted(t, "replies:\n  - error: {class: auth, message: no key}\n    repeat: true\n")
	p := within(t, nil, cli.CodeOK, "run", "--model", broken, "--model", scripted(t, oneReply), "hi")
	if !strings.Contains(p.out.String(), "Hello.") {
		t.Errorf("out %s", p.out)
	}
}

func TestASessionIsRecordedAndReplayed(t *testing.T) {
	t.Parallel()
	root, tape := t.TempDir(), filepath.Join(t.TempDir(), "tape.jsonl")
	talk := func(code int, model, prompt string) *program {
		return within(t, nil, code, "run", "--root", root, "--model", model, prompt)
	}
	talk(cli.CodeOK, "record:"+tape+"?model="+scripted(t, echo), "red")
	if p := talk(cli.CodeOK, "replay:"+tape, "red"); !strings.Contains(p.out.String(), "You said red.") {
		t.Errorf("out %s", p.out)
	}
	p := talk(cli.CodeFailed, "replay:"+tape, "blue")
	for _, want := range []string{"the request was not recorded", `-     "text": "red"`, `+     "text": "blue"`} {
		if !strings.Contains(p.err.String(), want) {
			t.Errorf("no %q in\n%s", want, p.err)
		}
	}
}

func TestADeploymentUsesTheNodesEnvironment(t *testing.T) {
	t.Parallel()
	url := cellOf(t, node())
	vars := env{"GEMINI_API_KEY": canary, "GOOGLE_GEMINI_BASE_URL": "http://127.0.0.1:1"}
	if p := within(t, vars, cli.CodeOK, "run", "--server", url, "What is here?"); strings.Contains(p.err.String(), "gemini") {
		t.Errorf("the key of this process counted:\n%s", p.err)
	}
	p := within(t, nil, cli.CodeFailed, "run", "--server", url, "--limit", "requests=1", "--model", "openai:gpt-5.5", "hi")
	if !strings.Contains(p.err.String(), "OPENAI_API_KEY is not set") {
		t.Errorf("err %s", p.err)
	}
	p = within(t, vars, cli.CodeUsage, "run", "--server", url, "--model", "gemini:x?base_url=http://127.0.0.1:1", "hi")
	if !strings.Contains(p.err.String(), "set GOOGLE_GEMINI_BASE_URL on the node") {
		t.Errorf("err %s", p.err)
	}
	if p := within(t, nil, cli.CodeOK, "run", "--server", url, "--model", scripted(t, oneReply), "hi"); !strings.Contains(p.out.String(), "Hello.") {
		t.Errorf("out %s", p.out)
	}
}
