package admin

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// The settings that matter to a cell. Others, such as placement and description, are the operator's choice.
const (
	streamSettings = `subjects retention storage num_replicas discard discard_new_per_subject max_msgs_per_subject
		max_msgs max_bytes max_age max_msg_size duplicate_window compression allow_direct allow_rollup_hdrs
		allow_msg_ttl subject_delete_marker_ttl allow_msg_schedules allow_msg_counter deny_delete deny_purge
		sealed no_ack republish subject_transform mirror sources persist_mode`
	consumerSettings = "filter_subject filter_subjects deliver_policy ack_policy ack_wait max_ack_pending max_deliver max_waiting"
)

// setting is one setting of a stream or a consumer, named as in the server's API.
type setting struct {
	Name  string
	Value string
}

// settings returns the settings of a jetstream.StreamConfig or jetstream.ConsumerConfig.
func settings(config any) (out []setting) {
	names := streamSettings
	if _, ok := config.(jetstream.ConsumerConfig); ok {
		names = consumerSettings
	}
	for name := range strings.FieldsSeq(names) {
		for field, value := range reflect.ValueOf(config).Fields() {
			if tag, _, _ := strings.Cut(field.Tag.Get("json"), ","); tag == name {
				out = append(out, setting{name, render(value.Interface())})
			}
		}
	}
	return out
}

func render(value any) string {
	switch v := value.(type) {
	case bool:
		return strconv.FormatBool(v)
	case time.Duration:
		return v.String()
	case []string:
		return cmp.Or(strings.Join(slices.Sorted(slices.Values(v)), " "), "none")
	case string:
		return cmp.Or(v, "none")
	case int, int32, int64:
		if n := fmt.Sprint(v); n != "0" && n != "-1" {
			return n
		}
		return "unlimited" // the server has two values for this
	}
	if text := strings.Trim(inJSON(value), `"`); text != "null" {
		return text
	}
	return "none"
}

// inJSON encodes a value without escaping >, which subjects contain.
func inJSON(v any) string {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(v) // settings can be encoded
	return strings.TrimSpace(b.String())
}
