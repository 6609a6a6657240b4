package embedded

import (
	"fmt"
	"sync"

	"go.uber.org/zap"
)

// serverLog passes the server's log lines to zap. Most notices are of interest only to developers
// of the server, so they are logged at debug level.
type serverLog struct {
	log *zap.Logger

	mu    sync.Mutex
	fatal error // the first fatal line
}

// fatalError is a line after which the server does not serve. It wraps the errors that it shows.
type fatalError struct {
	text   string
	causes []error
}

func (f fatalError) Error() string   { return f.text }
func (f fatalError) Unwrap() []error { return f.causes }

func newServerLog(log *zap.Logger) *serverLog {
	return &serverLog{log: log.Named("nats")}
}

// Noticef implements the server's logger.
func (l *serverLog) Noticef(format string, v ...any) { l.Debugf(format, v...) }

// Debugf implements the server's logger.
func (l *serverLog) Debugf(format string, v ...any) {
	if l.log.Core().Enabled(zap.DebugLevel) {
		l.log.Debug("server notice", line(format, v))
	}
}

// Tracef implements the server's logger. It drops traces, which contain whole messages.
func (l *serverLog) Tracef(string, ...any) {}

// Warnf implements the server's logger.
func (l *serverLog) Warnf(format string, v ...any) { l.log.Warn("server warning", line(format, v)) }

// Errorf implements the server's logger.
func (l *serverLog) Errorf(format string, v ...any) { l.log.Error("server error", line(format, v)) }

// Fatalf implements the server's logger. An embedded server must not end its process, so the line is
// kept and Start returns it as an error.
func (l *serverLog) Fatalf(format string, v ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.fatal == nil {
		f := fatalError{text: fmt.Sprintf(format, v...)}
		for _, arg := range v {
			if err, ok := arg.(error); ok {
				f.causes = append(f.causes, err)
			}
		}
		l.fatal = f
	}
	l.log.Debug("server gave up", line(format, v))
}

// failure returns the first fatal line, or nil.
func (l *serverLog) failure() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.fatal
}

func line(format string, v []any) zap.Field {
	return zap.String("line", fmt.Sprintf(format, v...))
}
