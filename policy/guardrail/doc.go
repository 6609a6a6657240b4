// Package guardrail checks the texts of a turn and ends the turn if one fails: a [Guard] is
// a hook with checks of new input, of replies and of tool results.
//
// A guardrail decides; it does not filter. A [Check] reads a text and passes or fails it,
// but never changes it, so the journal holds the text, its cost, and the reason for the end
// of the turn.
//
//   - Input checks read the user's newest input, once, before the model does. A failure ends
//     the turn without a model call. The input stays in the transcript and is not checked
//     again with later input.
//   - Output checks read the text of each reply. A failure ends the turn: the reply stays
//     recorded, marked as withheld, and its calls do not run.
//   - Result checks read the text of each tool result. A failure ends the turn before the
//     model sees it.
//
// Checks run in order, and the first failure counts. An empty text passes. An error or
// a panic of a check ends the turn too, unless a later check fails or [extension.FailOpen]
// wraps the guard.
//
// The journal records a failure under the guard's name, with the check's name and the
// problem. A check with Warn only adds its problem to the decision to continue.
//
// [MaxLength] and [Deny] return checks. For anything else, write a [Check] with your own Judge.
package guardrail
