// Package sparselog bounds how much a process logs about messages from others.
//
// A sender of invalid messages must not be able to fill the disk of the process that skips
// them. So each log message has a limit of lines per minute. If lines were left out, the next
// line has their number.
package sparselog

import (
	"sync"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// PerMinute is how many lines with the same message are logged in a minute.
const PerMinute = 20

// Log writes lines within the bounds. The zero value is ready. It is safe for concurrent use.
type Log struct {
	mu      sync.Mutex // guards minutes
	minutes map[string]*minute
}

// minute is what was logged of a message since it began.
type minute struct {
	began   time.Time
	lines   int
	leftOut int // since the last line
}

// Line logs a line, unless there were too many with the message. log may have fields of its own, which
// say what the line is about. The messages are few and fixed.
func (l *Log) Line(log *zap.Logger, level zapcore.Level, message string, fields ...zap.Field) {
	leftOut, ok := l.admit(message)
	if !ok {
		return
	}
	if leftOut > 0 {
		fields = append(fields, zap.Int("left_out", leftOut))
	}
	log.Log(level, message, fields...)
}

func (l *Log) admit(message string) (leftOut int, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.minutes == nil {
		l.minutes = make(map[string]*minute)
	}
	m := l.minutes[message]
	if m == nil {
		m = &minute{}
		l.minutes[message] = m
	}
	if now := time.Now(); now.Sub(m.began) >= time.Minute {
		m.began, m.lines = now, 0
	}
	if m.lines == PerMinute {
		m.leftOut++
		return 0, false
	}
	m.lines++
	leftOut, m.leftOut = m.leftOut, 0
	return leftOut, true
}
