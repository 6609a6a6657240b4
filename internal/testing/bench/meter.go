package bench

import (
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/pprof"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
)

// Figures are what one side needs for a round trip.
type Figures struct {
	TripsPerS float64 `json:"trips_per_s"`
	P50us     float64 `json:"p50_us"`
	P99us     float64 `json:"p99_us"`
	CPUus     float64 `json:"cpu_us,omitempty"` // user and system time of the process, with the server; 0: unknown
	Allocs    float64 `json:"allocs"`           // likewise
	Messages  float64 `json:"messages"`         // messages that the processes send and receive
	Bytes     float64 `json:"bytes"`            // bytes of these messages, with headers
}

// fields lists the figures in the order of the output.
func (f *Figures) fields() []*float64 {
	return []*float64{&f.TripsPerS, &f.P50us, &f.P99us, &f.CPUus, &f.Allocs, &f.Messages, &f.Bytes}
}

// medians returns the median of each figure.
func medians(runs []Figures) (m Figures) {
	for i, to := range m.fields() {
		var all []float64
		for _, r := range runs {
			all = append(all, *r.fields()[i])
		}
		slices.Sort(all)
		*to = (all[(len(all)-1)/2] + all[len(all)/2]) / 2
	}
	return m
}

// over returns each figure as a multiple of another side's.
func (f Figures) over(other Figures) (r Figures) {
	for i, to := range r.fields() {
		if of := *other.fields()[i]; of > 0 {
			*to = *f.fields()[i] / of
		}
	}
	return r
}

// meter measures one side, from its start to its stop.
type meter struct {
	conns    []*nats.Conn
	profiles *profiles // nil: none

	began time.Time
	usage usage
	cost  Figures // in total, until stop

	mu    sync.Mutex
	trips []time.Duration
}

// usage is what the process has used so far.
type usage struct {
	cpu             time.Duration
	mallocs         uint64
	messages, bytes uint64
}

func (m *meter) used() usage {
	var mem runtime.MemStats
	runtime.ReadMemStats(&mem)
	u := usage{cpu: cpuTime(), mallocs: mem.Mallocs}
	for _, nc := range m.conns {
		s := nc.Stats()
		u.messages += s.InMsgs + s.OutMsgs
		u.bytes += s.InBytes + s.OutBytes
	}
	return u
}

// start begins to measure. Earlier garbage does not count.
func (m *meter) start() error {
	runtime.GC()
	if err := m.profiles.start(); err != nil {
		return err
	}
	m.usage, m.began = m.used(), time.Now()
	return nil
}

// stop ends the measurement.
func (m *meter) stop() error {
	took, u := time.Since(m.began), m.used()
	m.mu.Lock()
	defer m.mu.Unlock()
	n := float64(len(m.trips))
	slices.Sort(m.trips)
	quantile := func(q float64) float64 { return float64(m.trips[int(q*(n-1))].Nanoseconds()) / 1000 }
	m.cost = Figures{
		TripsPerS: n / took.Seconds(), P50us: quantile(0.5), P99us: quantile(0.99),
		CPUus:    float64((u.cpu - m.usage.cpu).Nanoseconds()) / 1000 / n,
		Allocs:   float64(u.mallocs-m.usage.mallocs) / n,
		Messages: float64(u.messages-m.usage.messages) / n,
		Bytes:    float64(u.bytes-m.usage.bytes) / n,
	}
	return m.profiles.stop()
}

// trip adds a round trip that began at a time.
func (m *meter) trip(began time.Time) {
	took := time.Since(began)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.trips = append(m.trips, took)
}

// profiles are the files that the configuration names.
type profiles struct {
	cpu, memory string // "": none
	writing     *os.File
}

func (p *profiles) start() (err error) {
	if p == nil || p.cpu == "" {
		return nil
	}
	if p.writing, err = os.Create(p.cpu); err != nil {
		return fmt.Errorf("--cpuprofile: %w", err)
	}
	return pprof.StartCPUProfile(p.writing)
}

func (p *profiles) stop() error {
	if p == nil {
		return nil
	}
	if p.writing != nil {
		pprof.StopCPUProfile()
		if err := p.writing.Close(); err != nil {
			return fmt.Errorf("--cpuprofile: %w", err)
		}
	}
	if p.memory == "" {
		return nil
	}
	f, err := os.Create(p.memory)
	if err == nil {
		err = writeAllocations(f)
	}
	if err != nil {
		return fmt.Errorf("--memprofile: %w", err)
	}
	return nil
}

func writeAllocations(f io.WriteCloser) error {
	runtime.GC() // the profile shows the state at the last collection
	if err := pprof.Lookup("allocs").WriteTo(f, 0); err != nil {
		_ = f.Close() // the first error says what is wrong
		return err
	}
	return f.Close()
}
