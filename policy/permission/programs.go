package permission

import (
	"encoding/json"
	"path"
	"strings"

	"github.com/turnlog/turnlog/tool"
)

// command is the target of a request of the kind shell.command.
type command struct {
	Argv []string `json:"argv"`
	Cwd  string   `json:"cwd"`
	Env  []string `json:"env"` // the keys
}

func readCommand(target json.RawMessage) (command, bool) {
	var c command
	err := json.Unmarshal(target, &c)
	return c, err == nil && len(c.Argv) > 0 && c.Argv[0] != ""
}

// scope returns the scope of an approval: the program, or exactly this command if running
// other code is the program's purpose.
func (c command) scope() string {
	l, _ := launcherOf(c.Argv[0])
	switch name := c.Argv[0]; {
	case l.runs:
		return c.exactly()
	case !strings.Contains(name, "/") || path.IsAbs(name):
		return name
	case path.IsAbs(c.Cwd):
		return path.Join(c.Cwd, name)
	default:
		return "./" + path.Join(c.Cwd, name) // differs from a program on the search path
	}
}

// exactly returns a digest of the command with its arguments and directory.
func (c command) exactly() string {
	raw, _ := json.Marshal([]any{c.Argv, c.Cwd}) //nolint:errchkjson // texts can always be encoded
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
