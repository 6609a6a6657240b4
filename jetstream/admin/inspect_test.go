package admin

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go"
	"github.com/vmihailenco/msgpack/v5"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/jetstream"
	"github.com/turnlog/turnlog/jetstream/internal/api"
	"github.com/turnlog/turnlog/jetstream/internal/layout"
)

func TestInspectDescribesTheWholeCell(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, c *Cell) {
		seen, err := c.Inspect(t.Context())
		must(t, err)
		if len(seen.Streams) != len(Topology("", Config{})) {
			t.Errorf("%d streams", len(seen.Streams))
		}
		for _, s := range seen.Streams {
			if s.Err != nil || len(s.Differences) > 0 || !s.Memory || s.Replicas != 1 || s.Clock != (Clock{}) {
				t.Errorf("%s: %+v", s.Name, s)
			}
		}
		if diff := cmp.Diff([]string{c.nc.ConnectedServerName()}, seen.Servers()); diff != "" {
			t.Errorf("servers (-want +got):\n%s", diff)
		}
		if lacking := c.Unreadable(t.Context()); len(lacking) > 0 {
			t.Errorf("unreadable: %v", lacking)
		}
		seen, err = c.Inspect(t.Context(), RoleObserver)
		must(t, err)
		if len(seen.Streams) != 1 || seen.Streams[0].Name != "JOURNAL" {
			t.Errorf("an observer looks at %+v", seen.Streams)
		}
	})
}

func TestInspectNamesMissingStreams(t *testing.T) {
	t.Parallel()
	inBareBubble(t, func(t *testing.T, c *Cell) {
		seen, err := c.Inspect(t.Context())
		must(t, err)
		for _, s := range seen.Streams {
			if !errors.Is(s.Err, api.ErrNotProvisioned) {
				t.Errorf("%s: %v", s.Name, s.Err)
			}
		}
		if weak := seen.Weaker(ProfileAudit); len(weak) > 0 {
			t.Errorf("missing streams are weak: %v", weak)
		}
		for _, s := range c.InspectConsumers(t.Context()) {
			if s.Err == nil {
				t.Errorf("%+v", s)
			}
		}
	})
}

// A newly elected leader may report existing streams as missing.
func TestInspectAsksAgainAboutAMissingStream(t *testing.T) {
	t.Parallel()
	inBareBubble(t, func(t *testing.T, c *Cell) {
		time.AfterFunc(unknownPause/2, func() {
			if err := c.Provision(t.Context(), Config{}); err != nil {
				t.Error(err)
			}
		})
		seen, err := c.Inspect(t.Context())
		must(t, err)
		for _, s := range seen.Streams {
			if s.Err != nil {
				t.Errorf("%s: %v", s.Name, s.Err)
			}
		}
	})
}

func TestEveryDifferenceHasAChange(t *testing.T) {
	t.Parallel()
	c := &Cell{names: names{layout.New("team")}}
	edit := func(do string) string {
		return "nats stream info TEAM_RUN --json | jq '.config | " + do + "' > TEAM_RUN.json && nats stream edit TEAM_RUN --config TEAM_RUN.json --force"
	}
	for _, tc := range []struct{ object, setting, want, do string }{
		{"TEAM_RUN", "num_replicas", "3", "nats stream edit TEAM_RUN --replicas 3 --force"},
		{"TEAM_RUN", "subjects", "team.run.*", edit(`.subjects=["team.run.*"]`)},
		{"TEAM_RUN", "duplicate_window", "100ms", edit(".duplicate_window=100000000")},
		{"TEAM_RUN", "republish", "none", edit("del(.republish)")},
		{"TEAM_RUN", "max_msgs", "unlimited", edit(".max_msgs=0")},
		{"TEAM_RUN", "storage", "file", "storage cannot be changed on a stream that exists: take another --namespace, or, if what TEAM_RUN holds may go, " +
			"stop everything, nats stream rm TEAM_RUN --force, and turnlog provision --namespace team"},
		{"TEAM_TASKS > q_x", "max_waiting", "1", "stop the workers of queue x, nats consumer rm TEAM_TASKS q_x --force, and start them again, which recreates it"},
		{"server n1", "sync_interval", "always", "in the configuration of server n1 set jetstream { sync_interval: always }, and restart it"},
	} {
		if do := c.Change(Difference{Object: tc.object, Setting: tc.setting, Want: tc.want}); do != tc.do {
			t.Errorf("%s %s: %s\nwant %s", tc.object, tc.setting, do, tc.do)
		}
	}
}

func TestProfilesAreOrderedByStrength(t *testing.T) {
	t.Parallel()
	seen := Inspection{Streams: []StreamState{
		{Stream: "A", Replicas: 5, Servers: []string{"n2", "n1"}},
		{Stream: "B", Replicas: 2, Memory: true, Servers: []string{"n1"}},
		{Stream: "C", Err: api.ErrNotProvisioned},
	}}
	memory := Difference{Object: "B", Setting: "storage", Have: "memory", Want: "file"}
	few := Difference{Object: "B", Setting: "num_replicas", Have: "2", Want: "3"}
	for p, want := range map[Profile][]Difference{
		"": nil, ProfileDev: {memory}, ProfileStandard: {memory, few}, ProfileAudit: {memory, few},
	} {
		if diff := cmp.Diff(want, seen.Weaker(p)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", p, diff)
		}
	}
	syncs := []ServerSync{{Server: "n1", Interval: 2 * time.Minute}, {Server: "n3", Always: true}}
	if lazy, unseen := ProfileStandard.WeakSync(seen.Servers(), syncs); len(lazy)+len(unseen) > 0 {
		t.Errorf("standard asks for syncs: %v, %v", lazy, unseen)
	}
	lazy, unseen := ProfileAudit.WeakSync(seen.Servers(), syncs)
	if diff := cmp.Diff([]Difference{{Object: "server n1", Setting: "sync_interval", Have: "2m0s", Want: "always"}}, lazy); diff != "" {
		t.Errorf("lazy (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"n2"}, unseen); diff != "" {
		t.Errorf("unseen (-want +got):\n%s", diff)
	}
}

func TestBadMonitoringPortsAreErrors(t *testing.T) {
	t.Parallel()
	for page, want := range map[string]string{
		`{"server_name":"n","jetstream":{"config":{"sync_interval":120000000000,"sync_always":true}}}`: "",
		`{"server_name":"n","jetstream":{}}`: `JetStream is not enabled: server "n"`,
		`{}`:                                 "JetStream is not enabled",
		`<html>`:                             "no description of a server",
	} {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(page)) }))
		got, err := ReadSync(t.Context(), s.URL)
		s.Close()
		switch {
		case want == "" && (err != nil || got != ServerSync{Server: "n", Always: true, Interval: 2 * time.Minute}):
			t.Errorf("%s: %+v, %v", page, got, err)
		case want != "" && (err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), s.URL)):
			t.Errorf("%s: %v, want %s", page, err, want)
		}
	}
	s := httptest.NewServer(http.NotFoundHandler())
	defer s.Close()
	for _, tc := range []struct{ address, want string }{
		{s.URL, "it answers 404"},
		{"http://me:hush@127.0.0.1:1", "http://me:xxxxx@127.0.0.1:1"},
		{"nats://me:hush@127.0.0.1:4222", "not an address such as"},
		{"http://me:hush%zz@127.0.0.1", "not an address such as"},
		{"n1:8222", "not an address such as"},
	} {
		if _, err := ReadSync(t.Context(), tc.address); err == nil || !strings.Contains(err.Error(), tc.want) || strings.Contains(err.Error(), "hush") {
			t.Errorf("ReadSync(%s) = %v", tc.address, err)
		}
	}
}

func TestWorkListsSessionsAndCalls(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, c *Cell) {
		began := time.Now()
		put := func(subject string) {
			_, err := c.api.Publish(t.Context(), &nats.Msg{Subject: subject})
			must(t, err)
		}
		for _, s := range []content.SessionID{"a", "b"} {
			put(c.names.Cmd(s, "ask"))
			<-time.After(time.Minute)
		}
		put(c.names.Run("b"))
		put(c.names.Due("c"))
		put(c.names.Task("q", "a", "t1-r1-c1"))
		put(c.names.Task("q", "a", "t1-r1-c2"))
		w, err := c.Work(t.Context())
		must(t, err)
		want := Work{
			Active: map[content.SessionID]bool{"a": true, "b": true, "c": true}, Tokens: map[content.SessionID]bool{"b": true},
			Calls: map[string]map[content.SessionID]int{"q": {"a": 2}},
		}
		if diff := cmp.Diff(want, w); diff != "" {
			t.Errorf("work (-want +got):\n%s", diff)
		}
		for _, tc := range []struct {
			before time.Duration
			limit  int
			want   []content.SessionID
			more   bool
		}{
			{0, 9, nil, false},
			{time.Second, 9, []content.SessionID{"a"}, false},
			{time.Hour, 9, []content.SessionID{"a", "b", "c"}, false},
			{time.Hour, 3, []content.SessionID{"a", "b", "c"}, false},
			{time.Hour, 2, []content.SessionID{"a", "b"}, true},
		} {
			got, more, err := c.Waiting(t.Context(), began.Add(tc.before), tc.limit)
			must(t, err)
			if diff := cmp.Diff(tc.want, got); diff != "" || more != tc.more {
				t.Errorf("before %v, limit %d: more %t, (-want +got):\n%s", tc.before, tc.limit, more, diff)
			}
		}
		for s, there := range map[content.SessionID]bool{"a": true, "c": true, "d": false} {
			if m, ok, err := c.Command(t.Context(), s); err != nil || ok != there || ok == m.At.IsZero() {
				t.Errorf("command of %s: %+v, %t, %v", s, m, ok, err)
			}
		}
		if m, ok, err := c.TokenOf(t.Context(), "b"); err != nil || !ok || m.Seq != 1 || !m.At.Equal(began.Add(2*time.Minute)) {
			t.Errorf("token: %+v, %t, %v", m, ok, err)
		}
	})
}

func TestClocksCompareNodesWithTheServer(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, c *Cell) {
		must(t, c.cell.Nodes().Record(t.Context(), jetstream.NodeRecord{Node: "n1"}))
		for node, record := range map[string]map[string]any{
			"n2": {"n": "n2"}, // of an earlier release
			"n3": {"n": "n3", "a": content.TimeOf(time.Now().Add(time.Minute))},
		} {
			value, err := msgpack.Marshal(record)
			must(t, err)
			say(t, c, c.names.Nodes().Key(node), string(value))
		}
		got, err := c.Clocks(t.Context())
		must(t, err)
		if diff := cmp.Diff(map[string]time.Duration{"n1": 0, "n3": time.Minute}, got); diff != "" {
			t.Errorf("clocks (-want +got):\n%s", diff)
		}
		if all, err := c.cell.Nodes().List(t.Context()); err != nil || len(all) != 3 {
			t.Errorf("nodes %+v", all)
		}
	})
}
