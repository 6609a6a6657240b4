package exec

import (
	"github.com/turnlog/turnlog/engine"
	"github.com/turnlog/turnlog/extension"
	"github.com/turnlog/turnlog/internal/sandbox"
	"github.com/turnlog/turnlog/tool"
)

// NewVerifier returns the tool that runs the verifiers of tasks in the directory root. They run code
// that the model wrote, so they get the same environment and sandbox as any other command. It
// returns an error if root or the sandbox cannot be used.
func NewVerifier(root string, opts Options) (tool.Tool, error) {
	h, err := newHost(root, opts)
	if err != nil {
		return nil, err
	}
	wrap := func(argv []string, dir string) []string {
		return h.box.Wrap(sandbox.Command{Root: h.root.Dir(), Dir: dir, Files: h.files, Paths: h.paths, Argv: argv})
	}
	return engine.NewVerifierTool(root, extension.CommandVerifier{Env: h.env, Wrap: wrap})
}
