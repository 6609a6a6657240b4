package people

import (
	"math"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// Meter enforces each person's request limits at one gateway.
type Meter struct {
	rate float64 // requests per second; 0: no limit
	open int     // open requests; 0: no limit

	mu    sync.Mutex
	uses  map[string]*use // the key is the person's name
	sweep int             // the size of uses at which idle people are removed
}

// use is a person's current use.
type use struct {
	requests *rate.Limiter
	open     int
}

// firstSweep is how many people a meter keeps before it removes idle ones.
const firstSweep = 1024

// NewMeter returns a meter. It allows bursts of twice the rate. A stream is an open request until it ends.
func NewMeter(requestsPerSecond float64, open int) *Meter {
	return &Meter{rate: requestsPerSecond, open: open, uses: map[string]*use{}, sweep: firstSweep}
}

// Begin begins a request of a person and returns a function that ends it. If the person is over a limit, the function
// is nil, and wait is the time until a retry; 0: when an open request has ended.
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

// Known returns how many people the meter keeps.
func (m *Meter) Known() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.uses)
}

// forget removes people without open requests whose rate limit has fully recovered.
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
