package turnlogtest

import (
	"time"

	"github.com/turnlog/turnlog/actor"
	"github.com/turnlog/turnlog/client"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/events/seal"
	"github.com/turnlog/turnlog/model"
	"github.com/turnlog/turnlog/model/scripted"
	"github.com/turnlog/turnlog/policy/agentfile"
	"github.com/turnlog/turnlog/tool"
	"github.com/turnlog/turnlog/worker"
)

// Option changes what New starts.
type Option func(*options)

type options struct {
	tools  []tool.Tool
	node   []func(*actor.Config)
	worker []func(*worker.Config)
	lease  time.Duration
	crash  int // the append after which the node is killed; 0: none

	agents  string    // folder of agent files; "": none
	seals   seal.Ring // of every process
	cluster bool
	faulty  bool // the node and the worker connect through a proxy
}

func gather(opts []Option) (o options) {
	for _, opt := range opts {
		opt(&o)
	}
	return o
}

// Tools are the tools that the worker runs. Without tools, New starts no worker.
func Tools(tools ...tool.Tool) Option {
	return func(o *options) { o.tools = append(o.tools, tools...) }
}

// Node changes the configuration of each node. Without it, models follow scripts and every call is allowed.
func Node(change func(*actor.Config)) Option {
	return func(o *options) { o.node = append(o.node, change) }
}

// Worker changes the configuration of each worker.
func Worker(change func(*worker.Config)) Option {
	return func(o *options) { o.worker = append(o.worker, change) }
}

// Agents makes the node run the agents of a folder of agent files, with their hooks. [Agent] opens a
// session with one of them.
func Agents(folder string) Option { return func(o *options) { o.agents = folder } }

// Agent is for [Deployment.Script]: the session has that agent, but follows the script instead of the
// agent's model.
func Agent(name string) func(*client.Options) {
	return func(o *client.Options) { o.Config.Agent = &events.AgentRef{Name: name} }
}

// Lease is how long a worker may show no sign of life before its call goes to another worker. The
// default is the default of a deployment.
func Lease(d time.Duration) Option { return func(o *options) { o.lease = d } }

// CrashAfter kills the node when the deployment has appended that many entries in all sessions. Another
// node takes over, as in a deployment.
func CrashAfter(entries int) Option { return func(o *options) { o.crash = entries } }

// SealKeys gives every process the keys that open sealed sessions. [Sealed] starts a sealed session.
func SealKeys(ring seal.Ring) Option { return func(o *options) { o.seals = ring } }

// Sealed is for [Deployment.Script]: the content of the session is sealed. It needs [SealKeys].
func Sealed(o *client.Options) { o.Sealed = true }

// Fork makes a session continue another session after an entry. 0 is its newest entry. The fork follows the script of that
// session, unless it has a script.
func Fork(of *Session, seq uint64) func(*client.Options) {
	return func(o *client.Options) {
		o.From = events.EntryRef{Session: of.ID(), Seq: seq}
		if len(o.Config.ModelData) == 0 {
			o.Config = events.Config{}
		}
	}
}

// Cluster runs three servers with replicated streams instead of one. They have sockets, so it works
// only outside of bubbles.
func Cluster() Option { return func(o *options) { o.cluster = true } }

// nodeConfig returns the configuration of the node that New starts.
func (o options) nodeConfig(name string) actor.Config {
	cfg := actor.Config{Name: name, Models: scripts}
	for _, change := range o.node {
		change(&cfg)
	}
	if o.agents != "" && cfg.Agents == nil {
		cfg.Agents = agentfile.Host{
			Find: agentfile.Folder{Path: o.agents}.Find, Models: cfg.Models, Commands: true, Folder: o.agents, Root: o.agents,
		}
	}
	return cfg
}

// scripts opens a model that follows the script of its session.
func scripts(name string, data []byte) (model.Model, error) { return scripted.Parse(name, data) }
