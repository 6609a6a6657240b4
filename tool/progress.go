package tool

import (
	"math"
	"sync"
	"time"
)

// teller passes on what a tool says of itself: now and then, in a form that can be
// shown, and not a word after the call is over.
type teller struct {
	every  time.Duration
	report func(text string, share float64) // nil: nobody listens

	mu    sync.Mutex // also held while report runs, so that words keep their order
	over  bool
	last  time.Time   // when something was told
	timer *time.Timer // not nil: a word waits for it
	text  string
	share float64
}

func (v Invoker) teller(report func(string, float64)) *teller {
	every := v.ProgressEvery
	if every <= 0 {
		every = defaultProgress
	}
	return &teller{every: every, report: report}
}

// tell is a call's Progress.
func (p *teller) tell(text string, share float64) {
	if p.report == nil {
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
	p.text, p.share = clipText(string(valid([]byte(text))), 1000), min(max(share, 0), 1)
	if p.timer != nil {
		return
	}
	if wait := p.every - time.Since(p.last); wait > 0 {
		p.timer = time.AfterFunc(wait, p.due)
		return
	}
	p.say()
}

// due tells what has waited long enough.
func (p *teller) due() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.timer != nil {
		p.say()
	}
}

// end tells what still waits: it was the last word.
func (p *teller) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.timer != nil {
		p.timer.Stop()
		p.say()
	}
	p.over = true
}

func (p *teller) say() {
	p.timer, p.last = nil, time.Now()
	p.report(p.text, p.share)
}
