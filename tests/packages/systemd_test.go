package packages

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestTheUnitsStartTheBinariesWithFlagsThatTheyHave also holds that systemd waits longer than a process may need to stop, and
// that every credential in a command line is loaded.
func TestTheUnitsStartTheBinariesWithFlagsThatTheyHave(t *testing.T) {
	t.Parallel()
	bin := built(t)
	units, err := filepath.Glob("../../docs/systemd/*.service")
	if err != nil || len(units) != 3 {
		t.Fatalf("units: %v, %v", units, err)
	}
	for _, unit := range units {
		t.Run(filepath.Base(unit), func(t *testing.T) {
			t.Parallel()
			settings := settingsOf(t, unit)
			command := strings.Fields(only(t, settings, "ExecStart"))
			program := []string{filepath.Join(bin, filepath.Base(command[0]))}
			flags := command[1:]
			for len(flags) > 0 && !strings.HasPrefix(flags[0], "-") {
				program, flags = append(program, flags[0]), flags[1:] // a command such as gateway
			}
			help, err := exec.CommandContext(t.Context(), program[0], append(program[1:], "--help")...).Output()
			if err != nil {
				t.Fatal(err)
			}
			words := strings.Fields(string(help))
			for _, f := range flags {
				name, _, _ := strings.Cut(f, "=")
				if strings.HasPrefix(f, "--") && !slices.Contains(words, name) {
					t.Errorf("%s has no flag %s", program, name)
				}
				if credential, ok := strings.CutPrefix(f, "%d/"); ok && !slices.ContainsFunc(settings["LoadCredential"], func(s string) bool {
					return strings.HasPrefix(s, credential+":/etc/turnlog/")
				}) {
					t.Errorf("the credential %s is not loaded: %q", credential, settings["LoadCredential"])
				}
			}
			stop := duration(t, only(t, settings, "TimeoutStopSec")+"s")
			if i := slices.Index(flags, "--drain"); i >= 0 && duration(t, flags[i+1]) >= stop {
				t.Errorf("systemd kills the process after %s, and it may need %s to stop", stop, flags[i+1])
			}
		})
	}
}

// settingsOf returns the values of a unit's settings.
func settingsOf(t *testing.T, unit string) map[string][]string {
	t.Helper()
	f, err := os.Open(unit)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	settings := make(map[string][]string)
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		if name, value, ok := strings.Cut(lines.Text(), "="); ok && !strings.HasPrefix(name, "#") {
			settings[name] = append(settings[name], value)
		}
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	return settings
}

// only returns the value of a setting that a unit has once.
func only(t *testing.T, settings map[string][]string, name string) string {
	t.Helper()
	if len(settings[name]) != 1 {
		t.Fatalf("%s: %q", name, settings[name])
	}
	return settings[name][0]
}

func duration(t *testing.T, text string) time.Duration {
	t.Helper()
	d, err := time.ParseDuration(text)
	if err != nil {
		t.Fatal(err)
	}
	return d
}
