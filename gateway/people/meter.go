package people

import (
	"math"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// Meter holds each person to limits at one gateway.
type Meter struct {
	rate float64 // requests per second; 0: any number
	open int     // requests at once; 0: any number

	mu    sync.Mutex
	uses  map[string]*use // by the person's name
	sweep int             // when there are so many, those that say nothing any more are forgotten
}

// use is what a person does.
type use struct {
	requests *rate.Limiter
	open     int
}

// firstSweep is how many people a meter knows before it forgets any.
const firstSweep = 1024

// NewMeter returns a meter. A person may send twice the requests of a second at once. A stream is a request until it ends.
func NewMeter(requestsPerSecond float64, open int) *Meter {
	return &Meter{rate: requestsPerSecond, open: open, uses: map[string]*use{}, sweep: firstSweep}
}

// Begin begins a request of a person. It returns how to end it, or how long to wait before the next one: 0 until one ends.
func (m *Meter) Begin(name string) (end func(), wait time.Duration) {
	if m.rate == 0 && m.open == 0 {
		return func() {}, 0
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	u := m.uses[name]
	if u == nil {
		m.forget()
		u = &use{requests: rate.NewLimiter(rate.Inf, 0)}
		if m.rate > 0 {
			u.requests = rate.NewLimiter(rate.Limit(m.rate), int(math.Ceil(2*m.rate)))
		}
		m.uses[name] = u
	}
	if m.open > 0 && u.open >= m.open {
		return nil, 0
	}
	r := u.requests.Reserve()
	if wait := r.Delay(); wait > 0 {
		r.Cancel()
		return nil, wait
	}
	u.open++
	return func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		u.open--
	}, 0
}

// Known returns how many people the meter remembers.
func (m *Meter) Known() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.uses)
}

// forget forgets people who do nothing and may send as much as any other.
func (m *Meter) forget() {
	if len(m.uses) < m.sweep {
		return
	}
	for name, u := range m.uses {
		if u.open == 0 && u.requests.Tokens() >= float64(u.requests.Burst()) {
			delete(m.uses, name)
		}
	}
	m.sweep = max(firstSweep, 2*len(m.uses))
}
