package settings

import (
	"errors"
	"maps"
	"os"
	"os/signal"
	"slices"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Live is the value of a flag that may change while the program runs.
type Live interface {
	pflag.Value

	// Reloaded is called after a file was read again, with the changed settings that need a restart, or with an
	// error if the file is invalid.
	Reloaded(restart []string, err error)
}

// reloadOnHangup reads the file again at each SIGHUP until the command's context ends. Without a file the signal
// keeps its default, so a program ends with its terminal.
func reloadOnHangup(cmd *cobra.Command, file *File, given map[string]bool) {
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP)
	go func() {
		defer signal.Stop(hangups)
		for {
			select {
			case <-hangups:
				file = reload(cmd, file, given)
			case <-cmd.Context().Done():
				return
			}
		}
	}()
}

// reload sets the live flags that the file changed, and returns the current file. If the file is invalid, nothing
// changes.
func reload(cmd *cobra.Command, before *File, given map[string]bool) *File {
	now, err := readFor(cmd)
	restart := make(map[string]bool)
	if err != nil {
		now = before
	}
	var all []Live
	each(cmd, func(f *pflag.Flag) {
		live, is := f.Value.(Live)
		if is {
			all = append(all, live)
		}
		was, _ := before.Of(cmd.CommandPath(), f.Name)
		value, there := now.Of(cmd.CommandPath(), f.Name)
		switch {
		case given[f.Name] || slices.Equal(was.Texts, value.Texts):
		case !is:
			restart[f.Name] = true
		case there:
			err = errors.Join(err, set(cmd, f, value, now.Path))
		default:
			err = errors.Join(err, live.Set(f.DefValue))
		}
	})
	for _, live := range all {
		live.Reloaded(slices.Sorted(maps.Keys(restart)), err)
	}
	return now
}
