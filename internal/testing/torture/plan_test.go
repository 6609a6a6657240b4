package torture

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/turnlog/turnlog/internal/natscli"
	"github.com/turnlog/turnlog/model/scripted"
)

func TestASeedDecidesThePlan(t *testing.T) {
	t.Parallel()
	one, again, other := plan(7, Kinds(), time.Minute, defaultGap), plan(7, Kinds(), time.Minute, defaultGap), plan(8, Kinds(), time.Minute, defaultGap)
	if diff := cmp.Diff(one, again); diff != "" {
		t.Errorf("the same seed plans something else:\n%s", diff)
	}
	if cmp.Equal(one, other) {
		t.Error("two seeds have one plan")
	}
	if short := plan(7, Kinds(), 30*time.Second, defaultGap); !cmp.Equal(short, one[:len(short)]) {
		t.Error("a shorter run does not begin like a longer one")
	}
}

func TestEveryKindComesInHalfAMinute(t *testing.T) {
	t.Parallel()
	for seed := range uint64(50) {
		faults := plan(seed, Kinds(), defaultDuration, defaultGap)
		for _, k := range Kinds() {
			if !slices.ContainsFunc(faults, func(f Fault) bool { return f.Kind == k }) {
				t.Errorf("seed %d: no %s in %d faults", seed, k, len(faults))
			}
		}
		for i, f := range faults {
			if f.At >= defaultDuration || f.Length <= 0 || i > 0 && f.At <= faults[i-1].At {
				t.Errorf("seed %d: fault %d is %v", seed, i, f)
			}
		}
	}
}

func TestASeedDecidesTheStories(t *testing.T) {
	t.Parallel()
	scripts := make(map[string]bool)
	for slot := range 20 {
		s := scenarioOf(3, slot, 1, nil)
		if diff := cmp.Diff(s, scenarioOf(3, slot, 1, nil), cmp.AllowUnexported(scenario{}, turn{})); diff != "" {
			t.Errorf("the same seed tells something else:\n%s", diff)
		}
		if _, err := scripted.Parse("story", s.config.ModelData); err != nil {
			t.Errorf("scenario %d: %v\n%s", slot, err, s.config.ModelData)
		}
		scripts[string(s.config.ModelData)] = true
	}
	all := strings.Builder{}
	for s := range scripts {
		all.WriteString(s)
	}
	for _, want := range []string{toolRead, toolPut, toolAdd, toolLater, toolLong, "delay:", "error:"} {
		if !strings.Contains(all.String(), want) {
			t.Errorf("no scenario of %d has %s", len(scripts), want)
		}
	}
	if len(scripts) < 15 {
		t.Errorf("20 sessions have %d scripts", len(scripts))
	}
}

func TestImpossibleConfigsAreRefused(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		c    Config
		want string // "": it can be
	}{
		"no configuration":     {Config{}, ""},
		"own servers":          {Config{Servers: &natscli.Flags{}}, ""},
		"too short":            {Config{Duration: time.Millisecond}, "use a second or more"},
		"sessions":             {Config{Sessions: -1}, "-1 sessions"},
		"nodes":                {Config{Nodes: 51}, "51 nodes"},
		"replicas":             {Config{Replicas: 6}, "6 replicas"},
		"unknown fault":        {Config{Kinds: []Kind{"meteor"}}, `"meteor": use one of`},
		"a stream of journals": {Config{Streams: []string{"JOURNAL"}}, `"JOURNAL": use some of`},
		"no faults":            {Config{Kinds: []Kind{}}, "no kinds"},
		"servers of a caller":  {Config{Servers: &natscli.Flags{}, Kinds: []Kind{ServerStopped}}, "only servers in this process"},
	} {
		err := tt.c.Validate()
		if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", name, err, tt.want)
		}
	}
}
