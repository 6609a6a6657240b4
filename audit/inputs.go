package audit

import (
	"reflect"
	"slices"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
)

// inputOnce: each notification belongs to one late result. A verifier's output needs no queue.
func inputOnce() rule {
	var queued []content.Item
	notices := 0
	return func(f fact) {
		switch ev := f.event.(type) {
		case events.InputQueued:
			if ev.Origin == events.FromNotification {
				notices += len(ev.Items)
				return
			}
			queued = append(queued, ev.Items...)
		case events.ToolResultReceived:
			if ev.Late {
				notices++
			}
		case events.InputAccepted:
			switch ev.Origin {
			case events.FromNotification:
				if notices -= len(ev.Items); notices < 0 {
					f.fail("%d notifications are accepted without a late result", -notices)
					notices = 0
				}
			case events.FromVerifier, events.FromSchema:
			case events.FromHost, events.FromParent, events.FromTask:
				queued = take(f, queued, ev.Items)
			}
		}
	}
}

// take removes the accepted items from the queued ones.
func take(f fact, queued, accepted []content.Item) []content.Item {
	for i, it := range accepted {
		found := slices.IndexFunc(queued, func(q content.Item) bool {
			return q.Kind == it.Kind && reflect.DeepEqual(q.Parts, it.Parts)
		})
		if found < 0 {
			f.fail("accepted item %d, of kind %s, is not in the queue: it was never queued, or was already accepted", i+1, it.Kind)
			continue
		}
		queued = slices.Delete(queued, found, found+1)
	}
	return queued
}
