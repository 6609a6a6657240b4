package agentfile

import "github.com/turnlog/turnlog/policy/permission"

// Definition is what an agent file says. The zero value of a field is what the
// host does by itself.
type Definition struct {
	Name        string `json:"name,omitempty" jsonschema:"name of the agent: small letters, digits, - and _; the file's name unless given"`
	Description string `json:"description,omitempty" jsonschema:"what the agent is for; models that may delegate to it read this"`

	Model      string   `json:"model,omitempty" jsonschema:"model, as provider:model?option=value"`
	Fallback   []string `json:"fallback,omitempty" jsonschema:"models that take over, in order, where the one before cannot answer"`
	System     string   `json:"system,omitempty" jsonschema:"system prompt"`
	SystemFile string   `json:"system_file,omitempty" jsonschema:"file that holds the system prompt, beside the agent file"`
	Context    *Context `json:"context,omitempty" jsonschema:"what the agent is told about the folder that it works in"`

	Tools  []Tool            `json:"tools,omitempty" jsonschema:"tools that the agent may use; all on offer unless given. The first entry that fits a tool counts"`
	MCP    map[string]Server `json:"mcp,omitempty" jsonschema:"servers of the Model Context Protocol, by name; their tools are called mcp_NAME_TOOL"`
	Agents []string          `json:"agents,omitempty" jsonschema:"agents that it may delegate to, each as a tool called agent_NAME"`

	Permissions *permission.Policy `json:"permissions,omitempty" jsonschema:"what calls may do where they run, whatever tools lets them; held by whoever runs them"`

	Limits        *Limits    `json:"limits,omitempty" jsonschema:"bounds of each turn; what is not given is unlimited"`
	SessionLimits *Limits    `json:"session_limits,omitempty" jsonschema:"bounds of the whole session; what is not given is unlimited"`
	MaxParallel   int        `json:"max_parallel,omitempty" jsonschema:"how many calls of one reply may run at once; 1 unless given, -1 for all"`
	FailRun       bool       `json:"fail_run,omitempty" jsonschema:"whether a tool that fails ends the turn; otherwise the model is told"`
	OnBusy        string     `json:"on_busy,omitempty" jsonschema:"what becomes of input that comes while a turn is open; queue unless given"`
	Retry         *Retry     `json:"retry,omitempty" jsonschema:"how often what failed is tried"`
	Approvals     *Approvals `json:"approvals,omitempty" jsonschema:"questions to people"`

	Compaction *Compaction `json:"compaction,omitempty" jsonschema:"keeps the transcript small enough for the model"`
	Guardrails *Guardrails `json:"guardrails,omitempty" jsonschema:"checks of input, replies and results"`
	Hooks      []Hook      `json:"hooks,omitempty" jsonschema:"commands that are asked at points of the loop, on the machine that runs the loop"`
	Gate       *Gate       `json:"gate,omitempty" jsonschema:"what a task has to pass before it counts as done"`
	Memory     *Memory     `json:"memory,omitempty" jsonschema:"what tasks leave for later ones"`
	Output     *Output     `json:"output,omitempty" jsonschema:"what answers have to look like; free text unless given"`
	Cache      *Cache      `json:"cache,omitempty" jsonschema:"asks the provider to cache what prompts begin with"`
}

// Context is what an agent is told about the folder that it works in.
type Context struct {
	AgentsMD string   `json:"agents_md,omitempty" jsonschema:"which AGENTS.md files of the folder and those above it are read; none unless given"`
	Skills   []string `json:"skills,omitempty" jsonschema:"folders whose subfolders hold skills (SKILL.md), below the root of the tools"`
	Specs    []string `json:"specs,omitempty" jsonschema:"folders of Markdown files, below the root of the tools, of which tasks are shown those that fit their goal"`
}

// Tool says what becomes of calls of the tools that a pattern names.
type Tool struct {
	Name       string `json:"name" jsonschema:"a tool's name, in which * stands for any characters"`
	Permission string `json:"permission,omitempty" jsonschema:"what becomes of a call; guard unless given: it runs if the tool only reads, else a person decides"`
	Route      string `json:"route,omitempty" jsonschema:"how a call is waited for: foreground, background or detach:DURATION; as the tool asks unless given"`
	Effects    string `json:"effects,omitempty" jsonschema:"what a call does, in place of what the tool declares: read_only is let run by guard, and is repeated like idempotent when its worker is lost; none may do harm"`
	Exclusive  *bool  `json:"exclusive,omitempty" jsonschema:"whether a call never runs beside another one of its reply, in place of what the tool declares"`
	Timeout    string `json:"timeout,omitempty" jsonschema:"how long a call may take, like 30s; the tool's own if that is shorter"`
	MaxOutput  int    `json:"max_output,omitempty" jsonschema:"bytes of output that a result holds, what is more is cut out of its middle; what the tool's host has room for if that is less"`
}

// Server is a server of the Model Context Protocol: a command or a URL.
type Server struct {
	Command []string          `json:"command,omitempty" jsonschema:"program and arguments of a server that speaks over its standard input and output"`
	Env     map[string]string `json:"env,omitempty" jsonschema:"all that the command sees of an environment beside PATH and HOME; env:NAME and file:PATH stand for secrets"`
	URL     string            `json:"url,omitempty" jsonschema:"address of a server that speaks HTTP"`
	Headers map[string]string `json:"headers,omitempty" jsonschema:"headers of each request; env:NAME and file:PATH stand for secrets"`
	Token   string            `json:"token,omitempty" jsonschema:"bearer token of a server that speaks HTTP, as env:NAME or file:PATH"`
	Timeout string            `json:"timeout,omitempty" jsonschema:"how long a call may take, like 30s; 2m unless given"`

	IgnoreHints bool `json:"ignore_hints,omitempty" jsonschema:"take every tool for one that may do harm, whatever the server says of its effects"`
}

// Limits bound a turn or a session. Zero is unlimited.
type Limits struct {
	Rounds       int64  `json:"rounds,omitempty" jsonschema:"rounds of a model call and its tools"`
	Requests     int64  `json:"requests,omitempty" jsonschema:"model calls, retries included"`
	Tokens       int64  `json:"tokens,omitempty" jsonschema:"tokens in and out"`
	InputTokens  int64  `json:"input_tokens,omitempty" jsonschema:"tokens in"`
	OutputTokens int64  `json:"output_tokens,omitempty" jsonschema:"tokens out"`
	ToolCalls    int64  `json:"tool_calls,omitempty" jsonschema:"tool calls"`
	CostMicros   int64  `json:"cost_micros,omitempty" jsonschema:"cost in millionths of the currency in which the model's price is known"`
	WallClock    string `json:"wall_clock,omitempty" jsonschema:"time from begin to end, like 10m"`
}

// Retry says how often failed model calls and lost tool calls are tried.
type Retry struct {
	ModelAttempts int `json:"model_attempts,omitempty" jsonschema:"attempts of a model call; 4 unless given"`
	ToolAttempts  int `json:"tool_attempts,omitempty" jsonschema:"attempts of a call that may be repeated and whose worker was lost; 3 unless given"`
}

// Approvals say how people are asked.
type Approvals struct {
	TTL     string `json:"ttl,omitempty" jsonschema:"how long a question waits for its answer, like 24h; for ever unless given"`
	AskLost bool   `json:"ask_lost,omitempty" jsonschema:"whether a person decides if a lost call that may have done something is repeated; otherwise its outcome is unknown"`
}

// Compaction says when a transcript is made smaller, and how.
type Compaction struct {
	Items  int     `json:"items,omitempty" jsonschema:"compact a transcript of more items than this"`
	Window int64   `json:"window,omitempty" jsonschema:"size of the model's context window in tokens"`
	Share  float64 `json:"share,omitempty" jsonschema:"compact a transcript that fills more than this share of the window; 0.75 unless given"`
	Target int64   `json:"target,omitempty" jsonschema:"tokens at which the steps stop; every step is taken unless given"`
	Steps  []Step  `json:"steps" jsonschema:"what is done, in order"`
}

// Step is one strategy of a compaction. Exactly one field is set.
type Step struct {
	DropReasoning     bool       `json:"drop_reasoning,omitempty" jsonschema:"drop the model's reasoning of earlier rounds"`
	DropFailedResults bool       `json:"drop_failed_results,omitempty" jsonschema:"drop calls that came to nothing"`
	KeepItems         int        `json:"keep_items,omitempty" jsonschema:"keep this many of the newest items"`
	KeepTurns         int        `json:"keep_turns,omitempty" jsonschema:"keep this many of the newest turns"`
	KeepTokens        int64      `json:"keep_tokens,omitempty" jsonschema:"keep what fits into this many tokens"`
	Summarise         *Summarise `json:"summarise,omitempty" jsonschema:"have a model summarise what is older"`
}

// Summarise has a model write down what older items come to.
type Summarise struct {
	Model     string `json:"model,omitempty" jsonschema:"the model that summarises; the agent's own unless given"`
	KeepItems int    `json:"keep_items,omitempty" jsonschema:"newest items that stay as they are; 10 unless given"`
	MaxTokens int64  `json:"max_tokens,omitempty" jsonschema:"size of a summary; 1024 unless given"`
}

// Guardrails are checks behind one hook.
type Guardrails struct {
	Input   []Check `json:"input,omitempty" jsonschema:"checks of what users say"`
	Output  []Check `json:"output,omitempty" jsonschema:"checks of what the model answers"`
	Results []Check `json:"results,omitempty" jsonschema:"checks of what tools bring"`
}

// Check reads a text. Exactly one of MaxLength and Deny is set.
type Check struct {
	Name      string   `json:"name,omitempty" jsonschema:"name of the check in the journal; input_1, output_1, results_1, … unless given"`
	MaxLength int      `json:"max_length,omitempty" jsonschema:"refuse a text of more characters"`
	Deny      []string `json:"deny,omitempty" jsonschema:"refuse a text in which one of these regular expressions matches"`
	Warn      bool     `json:"warn,omitempty" jsonschema:"record a warning instead of ending the turn"`
}

// Hook is a command that is asked at points of the loop.
type Hook struct {
	Name     string   `json:"name,omitempty" jsonschema:"name of the hook in the journal; hook_1, hook_2, … unless given"`
	Points   []string `json:"points" jsonschema:"where it is asked"`
	Tools    []string `json:"tools,omitempty" jsonschema:"calls of which tools it is asked about, in which * stands for any characters; of all unless given. Only at pre_tool_execution and post_tool_execution"`
	Command  string   `json:"command" jsonschema:"shell command, begun in the folder of the agent files. It reads what happens as JSON. It goes on by exit code 0, also with a decision as JSON, and says no by 2"`
	Timeout  string   `json:"timeout,omitempty" jsonschema:"how long it may take, like 5s; 30s unless given"`
	FailOpen bool     `json:"fail_open,omitempty" jsonschema:"whether the turn goes on when the command fails; otherwise it ends"`
}

// Gate is what a task has to pass.
type Gate struct {
	Command    string `json:"command" jsonschema:"shell command that a worker runs in its root; the task is done if it ends with 0"`
	MaxRetries int    `json:"max_retries,omitempty" jsonschema:"how often the agent may go on after a failed gate; 3 unless given, -1 for never"`
}

// Memory is what tasks leave for later ones.
type Memory struct {
	Scope string `json:"scope,omitempty" jsonschema:"who shares the memory: the agent unless given"`
	TTL   string `json:"ttl,omitempty" jsonschema:"how long something is remembered, like 168h; 7 days unless given"`
}

// Output says what answers have to look like. Exactly one of Schema and
// SchemaFile is set.
type Output struct {
	Schema     map[string]any `json:"schema,omitempty" jsonschema:"JSON Schema of the answer"`
	SchemaFile string         `json:"schema_file,omitempty" jsonschema:"file that holds the schema, beside the agent file"`
	Repairs    int            `json:"repairs,omitempty" jsonschema:"rounds in which the model may correct an answer that does not fit; 2 unless given, -1 for none"`
}

// Cache asks a provider to cache what prompts begin with.
type Cache struct {
	Mode      string `json:"mode,omitempty" jsonschema:"whether the cache is asked for: required refuses a model that cannot keep it; as the options of the model say unless given"`
	Retention string `json:"retention,omitempty" jsonschema:"how long the provider keeps it; short unless given"`
	Key       string `json:"key,omitempty" jsonschema:"groups requests that begin alike"`
}
