// Package anthropic is the adapter for Claude models: the Messages API, streamed,
// on Anthropic's own Go SDK.
//
// The one idea: what the provider wants back is kept as it came. Thinking is a
// reasoning part named "anthropic" with its signature; redacted thinking is one
// with the encrypted bytes; a block that only this provider knows, such as a
// compaction, is a Custom part named "anthropic.<type>" with the block's JSON.
// Parts of other providers are left out of requests.
//
// How a transcript is written:
//
//   - System and Developer items, wherever they stand, are the system prompt.
//   - User items are user messages; so are Context and Notification items, with
//     their text inside <context> and <notification> tags; so are Tool items, whose
//     results come first in their message. Media of an error result come behind it,
//     since it may hold only text.
//   - Images (JPEG, PNG, GIF, WebP) and documents (PDF, text) go inline or by
//     http(s) address. What the model cannot take is told to it in a line of text.
//   - A cache request's breakpoints are marked on the blocks that they name, at most
//     four. Without breakpoints they are the end of the tools, of the system prompt
//     and of the last two user messages. If the request is required to be honoured
//     and cannot be, the call fails.
//   - A schema of the answer is the API's output format; parts of JSON Schema that
//     the API does not know move into descriptions, as the SDK does it.
//
// How a reply ends: stop reasons end_turn and stop_sequence are completed (tool_call
// if there are calls), tool_use is tool_call, max_tokens and
// model_context_window_exceeded are max_tokens, refusal is blocked with its category
// and explanation in the item's metadata under "refusal", compaction is compaction,
// pause_turn and reasons that are not known are other. A call whose arguments are
// not a JSON object fails the attempt with class server, and may be retried; in a
// reply that was cut off by a limit it is kept as
// {"invalid_arguments": "<what came>"} and does not run. A compaction without a
// summary fails the attempt too.
//
// A compaction declares the beta feature that made it in every later request, with
// a trigger out of reach if Config.CompactAt asks for no more of them.
//
// Usage counts all input tokens, of which cache reads and writes are told, and what
// the provider's compaction took. Nothing is read from the environment, nothing is
// retried, no redirect is followed, and the key is in no error and in nothing that
// can be printed.
//
// To test what calls this package, point Config.BaseURL at a modeltest.Server.
package anthropic
