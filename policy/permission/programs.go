package permission

import (
	"encoding/json"
	"path"
	"strings"

	"github.com/turnlog/turnlog/tool"
)

// command is the target of a request of the kind shell.command.
type command struct {
	Argv   []string `json:"argv"`
	Cwd    string   `json:"cwd"`
	Env    []string `json:"env"`              // the keys
	Values string   `json:"values,omitempty"` // digest of what they are set to
}

func readCommand(target json.RawMessage) (command, bool) {
	var c command
	err := json.Unmarshal(target, &c)
	return c, err == nil && len(c.Argv) > 0 && c.Argv[0] != ""
}

// scope returns the scope of an approval: exactly this command, with its arguments, directory and
// variables. The arguments determine what a program does.
func (c command) scope() string {
	raw, _ := json.Marshal(c) //nolint:errchkjson // texts can always be encoded
	return tool.Digest(raw)
}

// base returns the name of a program without path and version: python for
// /usr/bin/python3.12, and cmd for CMD.EXE.
func base(program string) string {
	name := strings.ToLower(path.Base(strings.ReplaceAll(program, `\`, "/")))
	name = strings.TrimSuffix(name, ".exe")
	if short := strings.TrimRight(name, "0123456789.-"); short != "" {
		return short
	}
	return name
}
