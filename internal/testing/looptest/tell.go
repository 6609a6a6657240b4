package looptest

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"reflect"
	"testing"

	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
)

// tell returns the envelope of a tell: tell NAME id=… by=… user=… at=… signed=KEY {…}, and a line for each
// check that the host attached.
func (r *runner) tell(t testing.TB, st statement) commands.Envelope {
	t.Helper()
	c, err := commandOf(st.arg(0), []byte(st.json))
	if err != nil {
		t.Fatalf("%s: %v", st, err)
	}
	r.clock(t, st)
	env := r.Envelope(c)
	env.ID, env.By, env.User = def(st.opt["id"], env.ID), st.opt["by"], st.opt["user"]
	if key := st.opt["signed"]; key != "" {
		env.Signed = &events.CommandSigned{Command: commands.NameOf(c), At: env.At, Signature: content.Signature{Key: key}}
	}
	for _, l := range st.of("check") {
		var k commands.Check
		if err := json.Unmarshal([]byte(l.json), &k); err != nil {
			t.Fatalf("%s: check: %v", st, err)
		}
		env.Checks = append(env.Checks, k)
	}
	for _, l := range st.of("hooks") {
		var a commands.HookAnswer
		if err := json.Unmarshal([]byte(l.json), &a); err != nil {
			t.Fatalf("%s: hooks: %v", st, err)
		}
		env.Hooks = append(env.Hooks, a)
	}
	return env
}

// clock sets the time from a statement. It may be earlier than before.
func (r *runner) clock(t testing.TB, st statement) {
	t.Helper()
	if st.has("at") {
		r.At = Epoch.Add(st.duration(t, "at"))
	}
}

// recorded appends the events of an entry as they are: record at=… ENTRY.
func (r *runner) recorded(t testing.TB, st statement) string {
	t.Helper()
	raw, err := base64.RawURLEncoding.DecodeString(st.arg(0))
	if err != nil {
		t.Fatalf("%s: %v", st, err)
	}
	e, err := events.Decode(raw)
	if err != nil {
		t.Fatalf("%s: %v", st, err)
	}
	r.clock(t, st)
	r.record(t, e.Cause, r.At, e.Events, r.Live.Fold)
	return lines(e.Events)
}

// commandOf decodes a command by its name on the wire.
func commandOf(name string, raw []byte) (commands.Command, error) {
	zero := commands.Named(name)
	if zero == nil {
		return nil, fmt.Errorf("no command %q", name)
	}
	v := reflect.New(reflect.TypeOf(zero))
	if len(raw) > 0 {
		if err := json.Unmarshal(raw, v.Interface()); err != nil {
			return nil, fmt.Errorf("command %s: %w", name, err)
		}
	}
	return v.Elem().Interface().(commands.Command), nil //nolint:forcetypeassert // it has the type of zero
}

// spelled returns a command in JSON, without zero fields where they mean the same. It returns
// false if JSON does not preserve the command.
func spelled(env commands.Envelope) (text string, ok bool) {
	want, err := env.Encode()
	if err != nil {
		return "", false
	}
	full, err := json.Marshal(env.Command)
	if err != nil {
		return "", false
	}
	for _, raw := range [][]byte{sparse(full), full} {
		c, err := commandOf(commands.NameOf(env.Command), raw)
		if err != nil {
			continue
		}
		back := env
		back.Command = c
		if got, err := back.Encode(); err == nil && string(got) == string(want) {
			return string(raw), true
		}
	}
	return "", false
}

// sparse drops zero fields.
func sparse(raw []byte) []byte {
	var v any
	if json.Unmarshal(raw, &v) != nil {
		return raw
	}
	out, err := json.Marshal(pruned(v))
	if err != nil {
		return raw
	}
	return out
}

func pruned(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for k, x := range v {
			if x = pruned(x); empty(x) {
				delete(v, k)
			} else {
				v[k] = x
			}
		}
	case []any:
		for i, x := range v {
			v[i] = pruned(x)
		}
	}
	return v
}

func empty(v any) bool {
	switch v := v.(type) {
	case nil:
		return true
	case map[string]any:
		return len(v) == 0
	case []any:
		return len(v) == 0
	case string:
		return v == ""
	case float64:
		return v == 0
	case bool:
		return !v
	}
	return false
}

// offset returns a time relative to Epoch, as scripts show it.
func offset(at content.Time) string { return at.Sub(Epoch).String() }
