package cli

import (
	"runtime/debug"
	"strings"
)

// Version describes the build: the module's version, the commit, and the release of Go.
func Version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	return versionOf(info)
}

func versionOf(info *debug.BuildInfo) string {
	version := info.Main.Version
	if version == "" || version == "(devel)" {
		version = "devel"
	}
	var commit, changed string
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			commit = s.Value[:min(12, len(s.Value))]
		case s.Key == "vcs.modified" && s.Value == "true":
			changed = ", changed since"
		}
	}
	if commit != "" && !strings.Contains(version, commit) {
		version += " (" + commit + changed + ")"
	}
	return version + " " + info.GoVersion
}
