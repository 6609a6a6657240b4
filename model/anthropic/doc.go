// Package anthropic adapts Claude models: the Messages API, streamed.
//
// Everything that the API wants back is kept unchanged. Thinking is a reasoning part
// named "anthropic" with its signature; redacted thinking is a reasoning part with the
// encrypted bytes. A block that only this API has, such as a compaction, is a custom
// part named "anthropic.<type>" with the JSON of the block. Requests leave out the
// reasoning and custom parts of other providers.
//
// How a transcript becomes a request:
//
//   - System and Developer items form the system prompt, wherever they appear.
//   - User items are user messages. So are Context and Notification items, with
//     their text in <context> and <notification> tags, and Tool items, whose results
//     come first in their message. Media of an error result follow it, because an
//     error may contain only text.
//   - Images (JPEG, PNG, GIF, WebP) and documents (PDF, text) are sent inline or by
//     http(s) URL. A line of text replaces anything else.
//   - The breakpoints of a cache request, at most four, mark the blocks that they
//     name. Without breakpoints they mark the end of the tools, of the system prompt
//     and of the last two user messages. A cache that is required but impossible
//     fails the call.
//   - An answer schema is the output format of the API. Anthropic's
//     Go SDK moves JSON Schema keywords that the API does not support into
//     descriptions.
//
// Stop reasons: end_turn and stop_sequence are completed (tool_call if there are
// calls), tool_use is tool_call, max_tokens and model_context_window_exceeded are
// max_tokens, and compaction is compaction. A refusal is blocked; its category and
// explanation are in the item's metadata under "refusal". pause_turn and unknown
// reasons are other.
//
// After a compaction, every request declares its beta feature. Unless
// Config.CompactAt asks for more compactions, its trigger is out of reach. A
// compaction without a summary fails the attempt.
//
// Input tokens include cache reads and writes. The tokens of compactions also count.
//
// To test code that calls this package, set Config.BaseURL to a modeltest.Server.
package anthropic
