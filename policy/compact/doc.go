// Package compact keeps a session's transcript small enough for its model: a [Compactor] is
// the mutator for a host's compaction.
//
// A compaction changes what the model sees, never what happened. The journal keeps every
// item; MutationFinished records the new transcript, the tokens before and after, and the
// cost.
//
// A [Trigger] says when to compact: above a number of items, or above a share of the model's
// context window. A [Strategy] says how: [DropReasoning], [DropFailedResults], [KeepRecent],
// [Summarise], your own, or a [Pipeline] of them that stops at its target.
//
// In every configuration, a compaction
//
//   - keeps a call and its result together, or drops both;
//   - keeps System and Developer items;
//   - keeps the newest input of the user, and the input that opened the oldest exchange
//     that is kept, so that no answer lacks its question;
//   - keeps the last item unchanged, so that the model can still answer;
//   - keeps the reasoning of open tool rounds, which providers require unchanged;
//   - changes nothing unless the transcript becomes smaller, and nothing when it runs again
//     on its own result;
//   - is deterministic, except for a summarizing model.
//
// Sizes are estimates: four bytes of text, calls, results and text files per token, 4 tokens
// per item, and for media approximately what providers document. An image costs 1,600 tokens; a
// document 1,500 per page of 50 KiB, for at most a hundred pages; audio and video one per
// 500 bytes. A reference to anything larger than 32 MiB costs 50. If a reply reports what
// its model counted, only the later items are estimated.
//
// A compaction runs before a model call. An error is recorded, leaves the transcript
// unchanged and ends the turn. There are no retries. The model call of Summarise bypasses a
// host's hooks and its durable wrapper; its usage is recorded and counts against the
// session's limits.
//
// A Compactor has no state: it is safe for concurrent use by any number of sessions.
package compact
