// Package guardrail checks the texts of a turn and ends the turn if one fails: a [Guard] is
// a hook with checks of new input, of replies and of tool results.
//
// A guardrail decides; it does not filter. A [Check] reads a text and lets it pass, warns,
// or trips, but never changes it, so the journal holds the text, its cost, and the reason
// for the end of the turn.
//
//   - Input checks read the newest input of the user, once, before the model does. A trip
//     ends the turn without a model call. The input stays in the transcript and is not
//     checked again with later input.
//   - Output checks read the text of each reply. A trip ends the turn: the reply stays
//     recorded, marked as withheld, and its calls do not run.
//   - Result checks read the text of each tool result. A trip ends the turn before the
//     model sees it.
//
// Checks run in order, and the first trip counts. An empty text passes. A check that
// returns an error ends the turn too, unless a later check trips or [extension.FailOpen]
// wraps the guard.
//
// A trip is recorded under the guard's name, with the check's name and its reason; a
// warning is recorded as a note of the decision to continue. Config.OnWarn gets warnings
// at once, at least once: a check runs again if its host dies before the decision is
// recorded.
//
// [MaxLength] and [Deny] return checks, a [Check] with your own Judge does anything else, and
// [Warning] turns trips into warnings.
package guardrail
