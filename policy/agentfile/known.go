package agentfile

import (
	"fmt"
	"os"
	"path/filepath"
)

// Known is what a program knows that reads agent files, so that they are checked against
// it. The zero value knows nothing.
type Known struct {
	Models func(name string) error    // why a name can mean no model; nil: any may
	Tools  func(pattern string) error // why a pattern of tools is a slip; nil: none is
	Beside bool                       // agents delegate to those in the folder of their file only
	Held   bool                       // sessions hold the definition, so it has to fit, see [MaxData]
}

// Load reads an agent file, and the files that it names beside it. An agent
// without a name is called like its file. It returns [Problems] for what is wrong
// with the file.
func Load(file string) (*Definition, error) { return Known{}.Load(file) }

// Parse is [Load] for a file that is in memory already. Read gets what it names; nil:
// it may name none.
func Parse(file string, data []byte, read ReadFunc) (*Definition, error) {
	r := &reader{file: file, read: read}
	return r.definition(data)
}

// Load is [Load], with a look at what the program knows.
func (k Known) Load(file string) (*Definition, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("agent file: %w", err)
	}
	root, err := os.OpenRoot(filepath.Dir(file))
	if err != nil {
		return nil, fmt.Errorf("agent file %s: %w", file, err)
	}
	defer func() { _ = root.Close() }() // it was only read
	r := &reader{file: file, read: root.ReadFile, known: k, folder: filepath.Dir(file)}
	return r.definition(data)
}
