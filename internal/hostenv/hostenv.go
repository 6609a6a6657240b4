// Package hostenv makes the environment of the commands that tools run.
//
// A command sees only variables that are passed explicitly, so no secret in this
// process's environment leaks by default. Every command gets PATH, HOME, LANG and TMPDIR.
package hostenv

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Always lists the variables that every command gets if this process has them.
func Always() []string { return []string{"PATH", "HOME", "LANG", "TMPDIR"} }

// Base returns the environment that every command gets.
func Base() []string {
	env := []string{"PATH=/usr/local/bin:/usr/bin:/bin"}
	for _, key := range Always() {
		if value, ok := os.LookupEnv(key); ok {
			env = append(env, key+"="+value)
		}
	}
	return env
}

// Pass returns the variables for a list of entries: NAME is this process's variable, if
// it is set, and NAME=value is that value. It returns an error for anything else.
func Pass(entries []string) ([]string, error) {
	var env []string
	for _, e := range entries {
		name, _, set := strings.Cut(e, "=")
		switch value, ok := os.LookupEnv(name); {
		case name == "" || strings.ContainsAny(name, " \t\n\x00") || strings.ContainsRune(e, 0):
			return nil, fmt.Errorf("variable %q: write NAME or NAME=value", e)
		case set:
			env = append(env, e)
		case ok:
			env = append(env, name+"="+value)
		}
	}
	return env, nil
}

// LookPath finds a program in the PATH of env, as a command with that environment
// would. It also returns that path. ok is false if the program is not in it.
func LookPath(name string, env []string) (file, path string, ok bool) {
	for _, v := range env {
		if value, found := strings.CutPrefix(v, "PATH="); found {
			path = value
		}
	}
	for _, dir := range filepath.SplitList(path) {
		if !filepath.IsAbs(dir) {
			continue
		}
		if full := filepath.Join(dir, name); Executable(full) {
			return full, path, true
		}
	}
	return "", path, false
}

// Executable reports whether a file can be run as a program.
func Executable(file string) bool {
	info, err := os.Stat(file)
	return err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0
}
