package tool

import (
	"math"
	"sync"
	"time"

	"github.com/turnlog/turnlog/content"
)

// progressEvery is the shortest interval between progress reports. A report that comes
// sooner is delayed and replaced by later ones, so the last is never lost.
const progressEvery = 100 * time.Millisecond

// progress limits how often a tool reports, and drops reports after the call.
type progress struct {
	send func(text string, share float64) // nil: the host does not listen

	mu    sync.Mutex // also held during send, which keeps reports in order
	over  bool
	last  time.Time   // of the last report sent
	timer *time.Timer // not nil: a report is pending
	text  string
	share float64
}

// report is a call's Progress.
func (p *progress) report(text string, share float64) {
	if p.send == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.over {
		return
	}
	if math.IsNaN(share) {
		share = 0
	}
	p.text, p.share = content.Clip(string(valid([]byte(text))), 1000), min(max(share, 0), 1)
	if p.timer != nil {
		return
	}
	if wait := progressEvery - time.Since(p.last); wait > 0 {
		p.timer = time.AfterFunc(wait, p.due)
		return
	}
	p.flush()
}

// due sends the pending report.
func (p *progress) due() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.timer != nil {
		p.flush()
	}
}

// end sends the pending report at once and drops later ones.
func (p *progress) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.timer != nil {
		p.timer.Stop()
		p.flush()
	}
	p.over = true
}

func (p *progress) flush() {
	p.timer, p.last = nil, time.Now()
	p.send(p.text, p.share)
}
