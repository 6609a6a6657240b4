package cli

import (
	"io"
	"sync/atomic"

	"github.com/spf13/cobra"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// Log is the logging flags of a command.
type Log struct {
	level, format *Choice
	least         zap.AtomicLevel
	made          atomic.Pointer[zap.Logger]
}

// level is the flag --log-level, which may change while the program runs.
type level struct {
	*Choice

	log *Log
}

// Set implements pflag.Value.
func (l level) Set(word string) error {
	if err := l.Choice.Set(word); err != nil {
		return err
	}
	return l.log.least.UnmarshalText([]byte(word)) //nolint:wrapcheck // it is one of the words
}

// Reloaded implements settings.Live: it logs what a program that read its settings again has done.
func (l level) Reloaded(restart []string, err error) {
	switch log := l.log.made.Load(); {
	case log == nil:
	case err != nil:
		log.Error("settings unchanged", zap.Error(err))
	default:
		log.Info("settings read again", zap.Strings("restart_to_change", restart))
	}
}

// NewLog adds the flags --log-level and --log-format to cmd and its subcommands. level is
// the default: long-running programs log more than short ones.
func NewLog(cmd *cobra.Command, least zapcore.Level) *Log {
	l := &Log{
		level:  NewChoice("debug", "info", "warn", "error"),
		format: NewChoice("console", "json"),
		least:  zap.NewAtomicLevelAt(least),
	}
	l.level.value = least.String()
	l.level.registerIn(cmd.PersistentFlags(), level{l.level, l}, cmd, "log-level", "", "minimum `level` that is logged")
	l.format.registerIn(cmd.PersistentFlags(), l.format, cmd, "log-format", "", "`format` of the log")
	return l
}

// Logger returns the logger that the flags describe. It writes to w, in a program standard
// error, and colors the levels if w supports that.
func (l *Log) Logger(w io.Writer, getenv func(string) string) *zap.Logger {
	enc := zap.NewProductionEncoderConfig()
	enc.EncodeTime = zapcore.RFC3339NanoTimeEncoder
	enc.EncodeDuration = zapcore.StringDurationEncoder
	encoder := zapcore.NewJSONEncoder
	if l.format.String() == "console" {
		encoder = zapcore.NewConsoleEncoder
		enc.ConsoleSeparator = "  "
		enc.EncodeTime = zapcore.TimeEncoderOfLayout("2006-01-02 15:04:05.000")
		enc.EncodeLevel = zapcore.CapitalLevelEncoder
		if Colored(w, getenv) {
			enc.EncodeLevel = zapcore.CapitalColorLevelEncoder
		}
	}
	sink := zapcore.Lock(zapcore.AddSync(w))
	log := zap.New(zapcore.NewCore(encoder(enc), sink, l.least), zap.ErrorOutput(sink))
	l.made.Store(log)
	return log
}
