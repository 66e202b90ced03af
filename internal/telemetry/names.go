package telemetry

import (
	"go.opentelemetry.io/otel/attribute"
	semconv "go.opentelemetry.io/otel/semconv/v1.41.0"
)

// Scope is the instrumentation scope of spans and metrics.
const Scope = "github.com/coppice-run/coppice"

// The operations of the conventions. A span's name starts with its operation.
const (
	opInvokeAgent = "invoke_agent"
	opExecuteTool = "execute_tool"
	opChat        = "chat"
)

// Span names without a counterpart in the conventions.
const (
	spanQueued  = "queued"
	spanParked  = "parked"
	spanAttempt = "attempt lost"
)

// Attributes of the conventions.
const (
	keyOperation    = semconv.GenAIOperationNameKey
	keyConversation = semconv.GenAIConversationIDKey
	keyAgent        = semconv.GenAIAgentNameKey
	keyAgentVersion = semconv.GenAIAgentVersionKey
	keyProvider     = semconv.GenAIProviderNameKey
	keyModelAsked   = semconv.GenAIRequestModelKey
	keyModel        = semconv.GenAIResponseModelKey
	keyFinish       = semconv.GenAIResponseFinishReasonsKey
	keyFirstChunk   = semconv.GenAIResponseTimeToFirstChunkKey
	keyInput        = semconv.GenAIUsageInputTokensKey
	keyOutput       = semconv.GenAIUsageOutputTokensKey
	keyCacheRead    = semconv.GenAIUsageCacheReadInputTokensKey
	keyCacheWrite   = semconv.GenAIUsageCacheCreationInputTokensKey
	keyTool         = semconv.GenAIToolNameKey
	keyToolType     = semconv.GenAIToolTypeKey
	keyCallID       = semconv.GenAIToolCallIDKey
	keyTokenType    = semconv.GenAITokenTypeKey
	keyErrorType    = semconv.ErrorTypeKey
	keyMessagesIn   = semconv.GenAIInputMessagesKey
	keyMessagesOut  = semconv.GenAIOutputMessagesKey
	keyArguments    = semconv.GenAIToolCallArgumentsKey
	keyResult       = semconv.GenAIToolCallResultKey
)

// Our own attributes.
const (
	keySession    = attribute.Key("coppice.session.id")
	keyTask       = attribute.Key("coppice.task.id")
	keyKind       = attribute.Key("coppice.task.kind")
	keyDepth      = attribute.Key("coppice.task.depth")
	keyAbout      = attribute.Key("coppice.task.description")
	keyRun        = attribute.Key("coppice.run")
	keyState      = attribute.Key("coppice.run.state")
	keyReason     = attribute.Key("coppice.run.reason")
	keyEpoch      = attribute.Key("coppice.epoch")
	keyWorker     = attribute.Key("coppice.worker.id")
	keyIterations = attribute.Key("coppice.run.model_calls")
	keyTools      = attribute.Key("coppice.run.tool_uses")
	keyBackground = attribute.Key("coppice.run.background")
	keyStarted    = attribute.Key("coppice.run.queue_seconds")
	keyPool       = attribute.Key("coppice.pool")
)

// Labels of our own metrics. Each has few values.
const (
	labelPool   = attribute.Key("pool")
	labelKind   = attribute.Key("kind")
	labelState  = attribute.Key("state")
	labelReason = attribute.Key("reason")

	labelOutcome  = attribute.Key("outcome")
	labelProvider = attribute.Key("provider")
	labelModel    = attribute.Key("model")
)
