package admin

import (
	"slices"
	"strconv"
	"strings"

	"github.com/nats-io/nats.go/jetstream"
)

// setting is one setting of a stream or a consumer, named as in the server's API.
type setting struct {
	Name  string
	Value string
}

// String renders s as name=value.
func (s setting) String() string { return s.Name + "=" + s.Value }

// streamSettings returns the settings that matter to a cell. Others, such as placement and
// description, are the operator's choice.
func streamSettings(c jetstream.StreamConfig) []setting {
	return []setting{
		{"subjects", strings.Join(slices.Sorted(slices.Values(c.Subjects)), " ")},
		{"retention", strings.ToLower(c.Retention.String())},
		{"storage", strings.ToLower(c.Storage.String())},
		{"num_replicas", strconv.Itoa(max(c.Replicas, 1))},
		{"discard", strings.TrimPrefix(strings.ToLower(c.Discard.String()), "discard")},
		{"discard_new_per_subject", strconv.FormatBool(c.DiscardNewPerSubject)},
		{"max_msgs_per_subject", limit(c.MaxMsgsPerSubject)},
		{"max_msgs", limit(c.MaxMsgs)},
		{"max_bytes", limit(c.MaxBytes)},
		{"max_age", c.MaxAge.String()},
		{"max_msg_size", limit(int64(c.MaxMsgSize))},
		{"duplicate_window", c.Duplicates.String()},
		{"compression", strings.ToLower(c.Compression.String())},
		{"allow_direct", strconv.FormatBool(c.AllowDirect)},
		{"allow_rollup_hdrs", strconv.FormatBool(c.AllowRollup)},
		{"allow_msg_ttl", strconv.FormatBool(c.AllowMsgTTL)},
		{"subject_delete_marker_ttl", c.SubjectDeleteMarkerTTL.String()},
		{"allow_msg_schedules", strconv.FormatBool(c.AllowMsgSchedules)},
		{"allow_msg_counter", strconv.FormatBool(c.AllowMsgCounter)},
		{"deny_delete", strconv.FormatBool(c.DenyDelete)},
		{"deny_purge", strconv.FormatBool(c.DenyPurge)},
		{"sealed", strconv.FormatBool(c.Sealed)},
		{"no_ack", strconv.FormatBool(c.NoAck)},
		{"republish", republishSetting(c.RePublish)},
		{"subject_transform", transformSetting(c.SubjectTransform)},
		{"mirror", strconv.FormatBool(c.Mirror != nil)},
		{"sources", strconv.Itoa(len(c.Sources))},
		{"persist_mode", strings.ToLower(c.PersistMode.String())},
	}
}

func consumerSettings(c jetstream.ConsumerConfig) []setting {
	return []setting{
		{"filter_subject", strings.Join(append(c.FilterSubjects, c.FilterSubject), " ")},
		{"deliver_policy", c.DeliverPolicy.String()},
		{"ack_policy", strings.TrimPrefix(strings.ToLower(c.AckPolicy.String()), "ack")},
		{"ack_wait", c.AckWait.String()},
		{"max_ack_pending", limit(int64(c.MaxAckPending))},
		{"max_deliver", limit(int64(c.MaxDeliver))},
		{"max_waiting", limit(int64(c.MaxWaiting))},
	}
}

// limit renders a limit; the server has two values for none.
func limit(n int64) string {
	if n <= 0 {
		return "unlimited"
	}
	return strconv.FormatInt(n, 10)
}

func republishSetting(r *jetstream.RePublish) string {
	if r == nil {
		return "none"
	}
	s := r.Source + " to " + r.Destination
	if r.HeadersOnly {
		s += ", headers only"
	}
	return s
}

func transformSetting(t *jetstream.SubjectTransformConfig) string {
	if t == nil {
		return "none"
	}
	return t.Source + " to " + t.Destination
}
