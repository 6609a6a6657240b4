package admin

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/turnlog/turnlog/jetstream/internal/layout"
)

// Change says how to resolve a difference. If possible it returns a command of the nats tool, which leaves
// all other settings unchanged.
func (c *Cell) Change(d Difference) string {
	if server, ok := strings.CutPrefix(d.Object, serverObject); ok {
		return fmt.Sprintf("in the configuration of server %s set jetstream { %s: %s }, and restart it", server, d.Setting, d.Want)
	}
	if stream, consumer, ok := strings.Cut(d.Object, " > "); ok {
		return c.changeConsumer(stream, consumer)
	}
	switch {
	case d.Setting == "num_replicas":
		return fmt.Sprintf("nats stream edit %s --replicas %s --force", d.Object, d.Want)
	case isFixed(d):
		return fmt.Sprintf("%s cannot be changed on a stream that exists: take another --namespace, or, if what %s holds may go, "+
			"stop everything, nats stream rm %[2]s --force, and turnlog provision%s", d.Setting, d.Object, c.flag())
	}
	rows := Topology(c.names.NS, Config{})
	i := slices.IndexFunc(rows, func(r Row) bool { return r.Stream == d.Object }) // all differences are of these rows
	if slices.Contains(rows[i].object().free, d.Setting) {
		flag := map[string]string{"discard": "--discard new", "discard_new_per_subject": "--discard-per-subject"}
		return fmt.Sprintf("nats stream edit %s %s --force", d.Object, cmp.Or(flag[d.Setting], "--max-msgs-per-subject "+d.Want))
	}
	return fmt.Sprintf("nats stream info %s --json | jq '.config | %s' > %[1]s.json && nats stream edit %[1]s --config %[1]s.json --force",
		d.Object, assignment(rows[i], d.Setting))
}

// changeConsumer says how to recreate a consumer. Consumers hold no messages, but a new one delivers
// unacknowledged messages again, so its users must stop first.
func (c *Cell) changeConsumer(stream, consumer string) string {
	rm := fmt.Sprintf("nats consumer rm %s %s --force", stream, consumer)
	if queue, ok := strings.CutPrefix(consumer, c.names.QueueConsumer("")); ok {
		return "stop the workers of queue " + queue + ", " + rm + ", and start them again, which recreates it"
	}
	return "stop the nodes, " + rm + ", turnlog provision" + c.flag() + ", and start them again"
}

// flag returns the flag that selects the cell, or "" for the default one.
func (c *Cell) flag() string {
	if c.names.NS == layout.DefaultNamespace {
		return ""
	}
	return " --namespace " + c.names.NS
}

// isFixed reports whether the server refuses to change the setting.
func isFixed(d Difference) bool {
	switch d.Setting {
	case "storage", "retention", "mirror", "sealed", "persist_mode", "allow_msg_counter":
		return true
	case "deny_delete", "deny_purge", "allow_msg_ttl", "allow_msg_schedules":
		return d.Want == "false"
	}
	return false
}

// assignment returns a jq expression that sets one setting of a stream's configuration.
func assignment(r Row, setting string) string {
	var want map[string]json.RawMessage
	if err := json.Unmarshal([]byte(inJSON(r.config)), &want); err != nil || want[setting] == nil {
		return "del(." + setting + ")"
	}
	return "." + setting + "=" + string(want[setting])
}
