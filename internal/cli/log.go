package cli

import (
	"io"

	"github.com/spf13/cobra"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// Log is the logging flags of a command.
type Log struct {
	level, format *Choice
}

// NewLog adds the flags --log-level and --log-format to cmd and its subcommands. level is
// the default: long-running programs log more than short ones.
func NewLog(cmd *cobra.Command, level zapcore.Level) *Log {
	l := &Log{
		level:  NewChoice("debug", "info", "warn", "error"),
		format: NewChoice("console", "json"),
	}
	l.level.value = level.String()
	l.level.registerIn(cmd.PersistentFlags(), cmd, "log-level", "", "minimum `level` that is logged")
	l.format.registerIn(cmd.PersistentFlags(), cmd, "log-format", "", "`format` of the log")
	return l
}

// Logger returns the logger that the flags describe. It writes to w, in a program standard
// error, and colors the levels if w supports that.
func (l *Log) Logger(w io.Writer, getenv func(string) string) *zap.Logger {
	level, err := zapcore.ParseLevel(l.level.String())
	if err != nil {
		level = zapcore.InfoLevel
	}
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
	return zap.New(zapcore.NewCore(encoder(enc), sink, level), zap.ErrorOutput(sink))
}
