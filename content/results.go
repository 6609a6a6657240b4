package content

import "slices"

// ResultItem returns the transcript item that answers a call. For a call that did not succeed, its
// metadata says how it ended.
func ResultItem(r ToolResult) Item {
	it := NewItem(Tool, ResultPart(r))
	if r.Status == StatusOK {
		return it
	}
	it.Metadata = Metadata{}.With(MetaToolStatus, r.Status)
	if r.Code != "" {
		it.Metadata = it.Metadata.With(MetaFailureCode, r.Code)
	}
	for _, key := range []string{MetaInterrupted, MetaInterruptReason, MetaInterruptStage} {
		if v, ok := r.Metadata.Get(key); ok {
			it.Metadata = it.Metadata.With(key, v)
		}
	}
	return it
}

// LateResult returns the item that tells a model about an outcome that arrived after its call was
// answered.
func LateResult(r ToolResult) Item {
	verb := "completed"
	if r.IsError {
		verb = "failed"
	}
	head := TextPart("Background tool call " + string(r.CallID) + " " + verb + ": " + r.Text())
	return NewItem(Notification, head, ResultPart(r))
}

// Runnable reports whether a transcript ends with something that a model can answer.
func Runnable(items []Item) bool {
	if len(items) == 0 {
		return false
	}
	last := items[len(items)-1]
	return slices.Contains([]Kind{User, Tool, Notification}, last.Kind) ||
		last.Kind == Assistant && last.FinishReason == Compaction
}

// Reported returns a worker's result in the form in which it is recorded. A worker may report only the
// statuses of a call that ran, and may set two of the reserved keys.
func (r ToolResult) Reported(id CallID, name string) ToolResult {
	switch r.Status {
	case StatusOK, StatusError, StatusDenied, StatusCancelled, StatusUnknown:
	default:
		r.Status = StatusError
	}
	r.CallID, r.Name, r.IsError = id, name, r.Status.IsError()
	md := r.Metadata.WithoutReserved()
	for _, key := range []string{MetaTruncated, MetaAuthRequest} {
		if v, ok := r.Metadata.Get(key); ok {
			md = md.With(key, v)
		}
	}
	r.Metadata = md
	return r
}
