package cli

import (
	"context"
	"io"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/turnlog/turnlog/internal/cli/otlp"
)

// Log holds the logging flags of a command.
type Log struct {
	level, format *Choice
	least         zap.AtomicLevel
	made          atomic.Pointer[zap.Logger]
	stop          otlp.Stop // of the export of logs; nil: there is none
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

// Reloaded implements settings.Live: it logs that the program has read its settings again.
func (l level) Reloaded(restart []string, err error) {
	switch log := l.log.made.Load(); {
	case log == nil:
	case err != nil:
		log.Error("settings not reloaded", zap.Error(err))
	default:
		log.Info("settings reloaded", zap.Strings("restart_to_change", restart))
	}
}

// lastExport is how long an ending program waits for a collector to accept the rest of its log.
const lastExport = 2 * time.Second

// Ended exports the rest of the log.
func (l level) Ended() {
	if l.log.stop == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), lastExport)
	defer cancel()
	_ = l.log.stop(ctx) // errors are logged
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
// error, and colors the levels if w supports that. It also exports the log, if the environment says so.
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
	core := zapcore.NewCore(encoder(enc), sink, l.least)
	log := zap.New(core, zap.ErrorOutput(sink))
	if err := otlp.Propagators(); err != nil {
		log.Warn("variable ignored", zap.Error(err))
	}
	exported, stop, err := otlp.ExportLogs(context.Background(), l.least, log)
	switch {
	case err != nil:
		log.Error("logs not exported", zap.Error(err))
	case exported != nil:
		log, l.stop = zap.New(zapcore.NewTee(core, exported), zap.ErrorOutput(sink)), stop
	}
	l.made.Store(log)
	return log
}
