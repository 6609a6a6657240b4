package exec

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/turnlog/turnlog/tool"
)

// Load returns the tools of a manifest, or of every manifest (.yaml, .yml, .json)
// directly in a folder, sorted by file name. It is [New] for files: a program with a
// slash in its name is relative to its manifest.
func Load(root, name string, opts Options) ([]tool.Tool, error) {
	files, err := manifests(name)
	if err != nil {
		return nil, err
	}
	h, err := newHost(root, opts)
	if err != nil {
		return nil, err
	}
	var tools []tool.Tool
	fileOf := map[string]string{} // by name of the tool
	for _, f := range files {
		m, err := readManifest(f)
		if err != nil {
			return nil, err
		}
		if other, ok := fileOf[m.Name]; ok {
			return nil, m.at("$.name", "%q is also the name of the tool in %s", m.Name, filepath.Base(other))
		}
		fileOf[m.Name] = f
		t, err := newProgram(h, m)
		if err != nil {
			return nil, err
		}
		tools = append(tools, t)
	}
	return tools, nil
}

func manifests(name string) ([]string, error) {
	info, err := os.Stat(name)
	switch {
	case err != nil:
		return nil, fmt.Errorf("manifest: %w", err)
	case !info.IsDir():
		return []string{name}, nil
	}
	entries, err := os.ReadDir(name)
	if err != nil {
		return nil, fmt.Errorf("manifests: %w", err)
	}
	var files []string
	for _, e := range entries {
		switch filepath.Ext(e.Name()) {
		case ".yaml", ".yml", ".json":
			files = append(files, filepath.Join(name, e.Name()))
		}
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("manifests: %s has no .yaml, .yml or .json file", name)
	}
	return files, nil
}
