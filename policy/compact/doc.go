// Package compact keeps a session's transcript small enough for its model: a
// [Compactor] is the mutator for a host's compaction.
//
// The one idea: a compaction is an edit of what the model is shown, never of what
// happened. The journal keeps every item; MutationFinished records the transcript
// that takes over, the tokens before and after, and what the edit cost.
//
// A [Trigger] says when: [ItemCount], [WindowShare], [Always], or [AnyOf] several.
// A [Strategy] says how: [DropReasoning], [DropFailedResults], [KeepRecent],
// [Window], [Summarise], or a [Pipeline] of them that stops at its target. Both are
// plain values and may be your own.
//
// Whatever is configured, a compaction
//
//   - keeps a call and its result together, or drops both;
//   - keeps System and Developer items, and the kinds in Config.Pin;
//   - keeps the newest input of the user, and the input that opened the oldest
//     exchange that is kept, so that no answer stands without its question;
//   - leaves the last item as it is, so what a model can answer stays answerable;
//   - keeps the reasoning of the tool rounds that are still open, which providers
//     want back as they signed it;
//   - changes nothing unless it makes the transcript smaller, and nothing at all when
//     it runs again on what it made;
//   - gives equal results for equal transcripts, as far as a summarising model does.
//
// Sizes are estimates: see [Estimator]. Where a reply says what its model counted,
// that number is the base, and only what came later is estimated.
//
// It runs before a model is called, which is where size matters, unless Config.Points
// says otherwise. An error leaves the transcript as it was and is recorded; there it
// ends the turn. Nothing is retried here, and the model call of Summarise does not go
// through a host's hooks or its durable wrapper, but its usage is recorded and counts
// against the session's limits.
//
// A Compactor holds no state: it is safe for concurrent use, and one serves any
// number of sessions.
package compact
