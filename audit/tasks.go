package audit

import (
	"reflect"
	"slices"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
)

// verifiedAsRecorded: verifications are numbered and run one at a time. Only a failed one sends work
// back. Notes are recalled and stored once per task.
func verifiedAsRecorded() rule {
	var v verifications
	return func(f *fact) {
		switch ev := f.event.(type) {
		case events.TaskStarted:
			if v.open {
				f.fail("a task starts inside another")
			}
			v = verifications{open: true, retries: ev.Spec.MaxRetries}
		case events.MemoryRecalled:
			v.once(f, "notes are recalled", &v.recalled)
		case events.VerifyStarted:
			v.verify(f, ev)
		case events.VerifyFinished:
			v.verdict(f, ev)
		case events.InputAccepted:
			if ev.Origin == events.FromVerifier {
				v.sendBack(f)
			}
		case events.MemoryStored:
			v.once(f, "notes are stored", &v.stored)
		case events.TaskFinished:
			v.finish(f, ev)
		case events.TurnFinished:
			if v.open {
				f.fail("%s finishes while its task is open", ev.Turn)
			}
		}
	}
}

// verifications is the state of the open task.
type verifications struct {
	open              bool
	retries, attempts int
	running, judged   bool
	passed            bool
	back              bool // the work was sent back after the last verdict
	recalled, stored  bool
}

func (v *verifications) sendBack(f *fact) {
	switch {
	case !v.judged || v.passed:
		f.fail("work is sent back, but no verification failed")
	case v.back:
		f.fail("work is sent back twice after verification %d", v.attempts)
	}
	v.back = true
}

func (v *verifications) once(f *fact, what string, done *bool) {
	switch {
	case !v.open:
		f.fail("%s, but no task is open", what)
	case *done:
		f.fail("%s twice for one task", what)
	}
	*done = true
}

func (v *verifications) verify(f *fact, ev events.VerifyStarted) {
	v.attempts++
	switch {
	case !v.open:
		f.fail("verification %d starts, but no task is open", ev.Attempt)
	case v.running:
		f.fail("verification %d starts while one is running", ev.Attempt)
	case ev.Attempt != v.attempts:
		f.fail("verification %d starts, want verification %d", ev.Attempt, v.attempts)
	case v.attempts > v.retries+1:
		f.fail("verification %d starts for a task with %d retries", ev.Attempt, v.retries)
	}
	v.running, v.judged, v.back = true, false, false
}

func (v *verifications) verdict(f *fact, ev events.VerifyFinished) {
	passes := ev.Status == "passed" || ev.Status == "skipped"
	switch {
	case ev.Success != passes:
		f.fail("a verification is %s, with success %t", ev.Status, ev.Success)
	case v.judged && ev.Status != "denied":
		f.fail("verification %d gets a second verdict", ev.Attempt)
	case !v.running && ev.Status != "skipped" && ev.Status != "denied":
		f.fail("verification %d gets a verdict, but is not running", ev.Attempt)
	case ev.Attempt != v.attempts:
		f.fail("verification %d gets a verdict, but the last one to start was %d", ev.Attempt, v.attempts)
	}
	v.running, v.judged, v.passed = false, true, ev.Success
}

func (v *verifications) finish(f *fact, ev events.TaskFinished) {
	switch {
	case !v.open:
		f.fail("a task finishes that did not start")
	case v.running:
		f.fail("the task finishes while its verification is running")
	case ev.Verified && !v.passed:
		f.fail("the task is recorded as verified, but its verifier did not pass")
	}
	*v = verifications{}
}

// inputOnce: each notification belongs to one late result, and each correction to one answer of a required format. They
// and a verifier's output need no queue.
func inputOnce() rule {
	var queued []content.Item
	notices := 0
	formatted, answered := false, false
	return func(f *fact) {
		switch ev := f.event.(type) {
		case events.RunStarted:
			formatted = ev.Config.Output != nil
		case events.ConfigChanged:
			formatted = ev.Config.Output != nil
		case events.ReplyRecorded:
			answered = true
		case events.InputQueued:
			if ev.Origin != events.FromHost && ev.Origin != events.FromTask {
				f.fail("input of the origin %s is queued, and only that of senders ever is", ev.Origin)
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
			case events.FromSchema:
				if !formatted || !answered {
					f.fail("a correction of an answer is accepted, but there is no answer that must have a format")
				}
				answered = false
			case events.FromVerifier: // see gate-held
			case events.FromHost, events.FromParent, events.FromTask:
				queued = take(f, queued, ev.Items)
			}
		}
	}
}

// take removes the accepted items from the queued ones.
func take(f *fact, queued, accepted []content.Item) []content.Item {
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
