package agentfile

import (
	"github.com/turnlog/turnlog/extension"
	"github.com/turnlog/turnlog/model"
)

// Mutators returns the agent's compaction as a mutator.
func (d *Definition) Mutators(models func(name string) (model.Model, error)) ([]extension.Mutator, error) {
	return d.mutators(models)
}
