package agentfile

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"

	"github.com/gowebpki/jcs"

	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/policy/permission"
)

// Definition is what an agent file says. schema.json documents each key. The zero value
// of a field leaves the default to the host.
type Definition struct {
	Name        string `json:"name,omitempty"`
	Description string `json:"description,omitempty"`

	Model      string   `json:"model,omitempty"`
	Fallback   []string `json:"fallback,omitempty"`
	System     string   `json:"system,omitempty"`
	SystemFile string   `json:"system_file,omitempty"`
	Context    *Context `json:"context,omitempty"`

	Tools  []Tool            `json:"tools,omitempty"`
	MCP    map[string]Server `json:"mcp,omitempty"`
	Agents []string          `json:"agents,omitempty"`

	Permissions *permission.Policy `json:"permissions,omitempty"`

	Limits        *Limits    `json:"limits,omitempty"`
	SessionLimits *Limits    `json:"session_limits,omitempty"`
	MaxParallel   int        `json:"max_parallel,omitempty"`
	FailRun       bool       `json:"fail_run,omitempty"`
	OnBusy        string     `json:"on_busy,omitempty"`
	Retry         *Retry     `json:"retry,omitempty"`
	Approvals     *Approvals `json:"approvals,omitempty"`

	Compaction *Compaction `json:"compaction,omitempty"`
	Guardrails *Guardrails `json:"guardrails,omitempty"`
	Hooks      []Hook      `json:"hooks,omitempty"`
	Verifier   *Verifier   `json:"gate,omitempty"`
	Memory     *Memory     `json:"memory,omitempty"`
	Output     *Output     `json:"output,omitempty"`
	Cache      *Cache      `json:"cache,omitempty"`
}

// Context says what an agent reads in the folder that it works in.
type Context struct {
	AgentsMD string   `json:"agents_md,omitempty"`
	Skills   []string `json:"skills,omitempty"`
	Specs    []string `json:"specs,omitempty"`
}

// Tool says what happens to calls of the tools that a pattern names.
type Tool struct {
	Name       string `json:"name"`
	Permission string `json:"permission,omitempty"`
	Route      string `json:"route,omitempty"`
	Effects    string `json:"effects,omitempty"`
	Exclusive  *bool  `json:"exclusive,omitempty"`
	Timeout    string `json:"timeout,omitempty"`
	MaxOutput  int    `json:"max_output,omitempty"`
}

// Server is a server of the Model Context Protocol: a command or a URL.
type Server struct {
	Command []string          `json:"command,omitempty"`
	Env     map[string]string `json:"env,omitempty"`
	URL     string            `json:"url,omitempty"`
	Headers map[string]string `json:"headers,omitempty"`
	Token   string            `json:"token,omitempty"`
	Timeout string            `json:"timeout,omitempty"`

	IgnoreHints bool `json:"ignore_hints,omitempty"`
}

// Limits are the limits of a turn or a session. Zero is unlimited.
type Limits struct {
	Rounds       int64  `json:"rounds,omitempty"`
	Requests     int64  `json:"requests,omitempty"`
	Tokens       int64  `json:"tokens,omitempty"`
	InputTokens  int64  `json:"input_tokens,omitempty"`
	OutputTokens int64  `json:"output_tokens,omitempty"`
	ToolCalls    int64  `json:"tool_calls,omitempty"`
	CostMicros   int64  `json:"cost_micros,omitempty"`
	WallClock    string `json:"wall_clock,omitempty"`
}

// Retry limits the attempts of failed model calls and lost tool calls.
type Retry struct {
	ModelPatience string `json:"model_patience,omitempty"`
	ModelAttempts int    `json:"model_attempts,omitempty"`
	ToolAttempts  int    `json:"tool_attempts,omitempty"`
}

// Approvals configure approval requests.
type Approvals struct {
	TTL     string `json:"ttl,omitempty"`
	AskLost bool   `json:"ask_lost,omitempty"`
}

// Compaction says when and how to make a transcript smaller.
type Compaction struct {
	Items  int     `json:"items,omitempty"`
	Window int64   `json:"window,omitempty"`
	Share  float64 `json:"share,omitempty"`
	Target int64   `json:"target,omitempty"`
	Steps  []Step  `json:"steps"`
}

// Step is one strategy of a compaction. Exactly one field is set.
type Step struct {
	DropReasoning     bool       `json:"drop_reasoning,omitempty"`
	DropFailedResults bool       `json:"drop_failed_results,omitempty"`
	KeepItems         int        `json:"keep_items,omitempty"`
	KeepTurns         int        `json:"keep_turns,omitempty"`
	KeepTokens        int64      `json:"keep_tokens,omitempty"`
	Summarise         *Summarise `json:"summarise,omitempty"`
}

// Summarise says that a model summarizes older items.
type Summarise struct {
	Model     string `json:"model,omitempty"`
	KeepItems int    `json:"keep_items,omitempty"`
	MaxTokens int64  `json:"max_tokens,omitempty"`
}

// Guardrails are checks in one hook.
type Guardrails struct {
	Input   []Check `json:"input,omitempty"`
	Output  []Check `json:"output,omitempty"`
	Results []Check `json:"results,omitempty"`
}

// Check checks a text. Exactly one of MaxLength and Deny is set.
type Check struct {
	Name      string   `json:"name,omitempty"`
	MaxLength int      `json:"max_length,omitempty"`
	Deny      []string `json:"deny,omitempty"`
	Warn      bool     `json:"warn,omitempty"`
}

// Hook is a command that runs at points of the loop.
type Hook struct {
	Name     string   `json:"name,omitempty"`
	Points   []string `json:"points"`
	Tools    []string `json:"tools,omitempty"`
	Command  string   `json:"command"`
	Timeout  string   `json:"timeout,omitempty"`
	FailOpen bool     `json:"fail_open,omitempty"`
}

// Verifier is a command that checks the work of a task.
type Verifier struct {
	Command    string `json:"command"`
	MaxRetries int    `json:"max_retries,omitempty"`
}

// Memory configures the notes that tasks leave for later ones.
type Memory struct {
	Scope string `json:"scope,omitempty"`
	TTL   string `json:"ttl,omitempty"`
}

// Output is the form of answers. Exactly one of Schema and SchemaFile is set.
type Output struct {
	Schema     map[string]any `json:"schema,omitempty"`
	SchemaFile string         `json:"schema_file,omitempty"`
	Repairs    int            `json:"repairs,omitempty"`
}

// Cache asks a provider to cache the beginning of prompts.
type Cache struct {
	Mode      string `json:"mode,omitempty"`
	Retention string `json:"retention,omitempty"`
	Key       string `json:"key,omitempty"`
}

// Encode returns the definition in its canonical form, which [Parse] reads.
func (d *Definition) Encode() ([]byte, error) {
	raw, err := json.Marshal(d)
	if err == nil {
		raw, err = jcs.Transform(raw)
	}
	if err != nil {
		return nil, fmt.Errorf("agent %s: %w", d.Name, err)
	}
	return raw, nil
}

// Version returns the digest of the canonical form, in 16 hexadecimal digits.
func (d *Definition) Version() (string, error) {
	ref, err := d.Ref()
	if err != nil {
		return "", err
	}
	return ref.Version, nil
}

// Ref returns the definition in the form that a session records.
func (d *Definition) Ref() (*events.AgentRef, error) {
	data, err := d.Encode()
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(data)
	return &events.AgentRef{Name: d.Name, Version: hex.EncodeToString(sum[:8]), Data: data}, nil
}
