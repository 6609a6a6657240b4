// Package guardrail stops turns by what is said in them: a [Guard] is the hook for a
// host's checks of new input, of replies and of what tools bring.
//
// The one idea: a guardrail is a gate and no filter. A [Check] reads a text and lets
// it pass, warns, or trips; it never changes a word, so the journal holds what was
// said and paid for, and why it went no further.
//
//   - Input checks read the newest input of the user, once, before the model does. One
//     that trips ends the turn without a model call; the input stays in the
//     transcript, and is not read again when the next one comes.
//   - Output checks read the text of each reply. One that trips ends the turn: the reply stays
//     recorded and is marked as withheld, and its calls do not run.
//   - Result checks read the text of what each tool brought. One that trips ends the turn before
//     the model reads it.
//
// Checks are asked in the order in which they are given and the first that trips
// counts; what warned before it hides nothing. A text that is empty passes. A check
// that fails, other than by saying no, ends the turn too, unless a later one trips or
// [extension.FailOpen] wraps the guard.
//
// A trip is recorded, under the guard's name, with the check's name and its reason, and
// so is a warning, as a note of the decision to go on. Config.OnWarn is told of warnings
// at once, and at least once: a check whose host was lost before its decision was
// recorded is asked again.
//
// [MaxLength] and [Deny] are checks; [Func] makes one of a function, and [Warning]
// makes one warn where it would trip.
package guardrail
