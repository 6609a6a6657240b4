package cli

import (
	"cmp"

	"github.com/spf13/cobra"

	"github.com/turnlog/turnlog/events/seal"
)

// envSealKey names the file with seal keys for programs without the flag.
const envSealKey = "TURNLOG_SEAL_KEY"

// SealKey names the file with the keys that open sealed sessions.
type SealKey struct {
	file   string // "": sealed sessions stay closed
	getenv func(string) string
}

// Register adds the flag to cmd and its subcommands.
func (k *SealKey) Register(cmd *cobra.Command, getenv func(string) string) {
	k.getenv = getenv
	cmd.PersistentFlags().StringVar(&k.file, "seal-key", "", "`file` with the seal keys, to read sealed sessions (see \"turnlog seal\") ["+envSealKey+"]")
	_ = cmd.MarkPersistentFlagFilename("seal-key") // the flag exists
}

// Ring reads the keys. Without a file it returns none. Its errors are usage errors.
func (k *SealKey) Ring() (seal.Ring, error) {
	file := cmp.Or(k.file, k.getenv(envSealKey))
	if file == "" {
		return nil, nil
	}
	ring, err := seal.Read(file)
	if err != nil {
		return nil, Usage("--seal-key: %w", err)
	}
	return ring, nil
}
