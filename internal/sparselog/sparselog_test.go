package sparselog_test

import (
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/turnlog/turnlog/internal/sparselog"
)

func TestLinesAreCountedBeyondTheirShare(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		core, seen := observer.New(zap.DebugLevel)
		log := zap.New(core)
		var l sparselog.Log
		for range 1000 {
			l.Line(log, zap.WarnLevel, "often")
		}
		l.Line(log, zap.WarnLevel, "once")
		if often, once := seen.FilterMessage("often").Len(), seen.FilterMessage("once").Len(); often != sparselog.PerMinute || once != 1 {
			t.Errorf("%d and %d lines, want %d and 1", often, once, sparselog.PerMinute)
		}
		<-time.After(time.Minute)
		l.Line(log, zap.WarnLevel, "often", zap.Int("n", 7))
		l.Line(log, zap.WarnLevel, "often")
		all := seen.FilterMessage("often").All()
		if last := all[len(all)-2]; last.ContextMap()["left_out"] != int64(980) || last.ContextMap()["n"] != int64(7) {
			t.Errorf("the next line has %v, want the number of those left out", last.ContextMap())
		}
		if last := all[len(all)-1]; len(last.ContextMap()) != 0 {
			t.Errorf("the line after it has %v", last.ContextMap())
		}
	})
}
