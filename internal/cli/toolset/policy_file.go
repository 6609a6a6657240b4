package toolset

import (
	"fmt"
	"os"

	"github.com/turnlog/turnlog/policy/permission"
)

// Policy returns the policy of a node, from a file; "": the default.
func Policy(file string) (permission.Deployment, error) {
	if file == "" {
		return permission.Default(), nil
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return permission.Deployment{}, fmt.Errorf("--policy: %w", err)
	}
	d, err := permission.ParseDeployment(data, CheckPattern)
	if err != nil {
		return d, fmt.Errorf("--policy %s: %w", file, err)
	}
	if d.Name == "" {
		d.Name = file
	}
	return d, nil
}
