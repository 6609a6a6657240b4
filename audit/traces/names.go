package traces

import (
	"strings"

	"go.opentelemetry.io/otel/attribute"
)

// The names of operations and attributes, from OpenTelemetry's semantic conventions for generative AI, which are
// still in development. All names in traces are here.
const (
	opAgent = "invoke_agent"
	opChat  = "chat"
	opTool  = "execute_tool"

	keyOperation    = attribute.Key("gen_ai.operation.name")
	keyConversation = attribute.Key("gen_ai.conversation.id")
	keySession      = attribute.Key("session.id") // the same, as some backends expect it
	keyAgent        = attribute.Key("gen_ai.agent.name")
	keyAgentVersion = attribute.Key("gen_ai.agent.version")
	keyProvider     = attribute.Key("gen_ai.provider.name")
	keyModel        = attribute.Key("gen_ai.request.model")
	keyReplyModel   = attribute.Key("gen_ai.response.model")
	keyReplyID      = attribute.Key("gen_ai.response.id")
	keyFinish       = attribute.Key("gen_ai.response.finish_reasons")
	keyInput        = attribute.Key("gen_ai.usage.input_tokens")
	keyOutput       = attribute.Key("gen_ai.usage.output_tokens")
	keyCacheRead    = attribute.Key("gen_ai.usage.cache_read.input_tokens")
	keyCacheWrite   = attribute.Key("gen_ai.usage.cache_write.input_tokens")
	keyReasoning    = attribute.Key("gen_ai.usage.reasoning.output_tokens")
	keyTool         = attribute.Key("gen_ai.tool.name")
	keyToolType     = attribute.Key("gen_ai.tool.type")
	keyCall         = attribute.Key("gen_ai.tool.call.id")
	keyError        = attribute.Key("error.type")

	// Only with Config.Content:
	keyArguments = attribute.Key("gen_ai.tool.call.arguments")
	keyResult    = attribute.Key("gen_ai.tool.call.result")
	keyMessages  = attribute.Key("gen_ai.output.messages")

	// Not in the conventions:
	keyTurn     = attribute.Key("turnlog.turn")
	keyRound    = attribute.Key("turnlog.round")
	keyAttempt  = attribute.Key("turnlog.attempt")
	keyPlace    = attribute.Key("turnlog.place")
	keyQueue    = attribute.Key("turnlog.queue")
	keyNode     = attribute.Key("turnlog.node")
	keyTrigger  = attribute.Key("turnlog.trigger")
	keyParent   = attribute.Key("turnlog.parent_session")
	keyApproval = attribute.Key("turnlog.approval")
	keyRan      = attribute.Key("turnlog.tool.duration_ms") // as its worker measured it
	keyCost     = attribute.Key("turnlog.usage.cost_micros")

	eventClaimed = "driver claimed"
)

// modelOf splits the name of a model into the provider, as named in the conventions, and the provider's name for it.
func modelOf(ref string) (provider, name string) {
	provider, name, _ = strings.Cut(ref, ":")
	name, _, _ = strings.Cut(name, "?")
	if provider == "gemini" {
		provider = "gcp.gemini"
	}
	return provider, name
}
