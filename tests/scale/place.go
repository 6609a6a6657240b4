package main

import (
	"hash/fnv"
	"slices"
	"strconv"
)

// measured returns what BenchmarkCell/sessions=100000 printed for docs/scale.md.
func measured() costs {
	return costs{memory: 905, disk: 616, restart: 18e-6, entries: 40_500, turn: 4}
}

// world is what is placed.
type world struct{ sessions, cells, tenants int }

// policy says by which key a session is placed. A cell is chosen by rendezvous hashing: each cell has a score for a key, and the
// highest one wins. So an additional cell takes its share of every other one, and no other session moves.
type policy string

// With four places for each tenant, each place has a cell, and the tenant's sessions are spread over them.
const (
	bySession      policy = "session"
	byTenant       policy = "tenant"
	byTenantInFour policy = "tenant, in 4"
)

func (p policy) key(w world, session, tenant int) int {
	switch p {
	case byTenant:
		return tenant
	case byTenantInFour:
		return w.tenants*(session%4) + tenant
	case bySession:
	}
	return session
}

// place returns how many sessions each cell has, the fullest one first.
func (w world) place(p policy) []int {
	load, owner := make([]int, w.cells), w.owners()
	for s := range w.sessions {
		load[highest(p.key(w, s, owner(s)), w.cells)]++
	}
	slices.Sort(load)
	slices.Reverse(load)
	return load
}

// owners returns who has which session: tenant k has 1/k of what the first one has.
func (w world) owners() func(session int) int {
	sum := 0.0
	ends := make([]float64, w.tenants)
	for k := range ends {
		sum += 1 / float64(k+1)
		ends[k] = sum
	}
	return func(session int) int {
		at := (float64(session) + 0.5) / float64(w.sessions) * sum
		k, _ := slices.BinarySearch(ends, at)
		return min(k, w.tenants-1)
	}
}

// moves returns the share of sessions whose cell changes when a cell is added.
func (w world) moves() float64 {
	moved := 0
	for s := range w.sessions {
		if highest(s, w.cells) != highest(s, w.cells+1) {
			moved++
		}
	}
	return float64(moved) / float64(w.sessions)
}

// highest returns the cell with the highest score for a key.
func highest(key, cells int) (cell int) {
	h := fnv.New64a()
	_, _ = h.Write(strconv.AppendInt(nil, int64(key), 10)) // it never fails
	seed, best := h.Sum64(), uint64(0)
	for c := range cells {
		if score := mixed(seed + uint64(c)*0x9e3779b97f4a7c15); score >= best { //nolint:gosec // few
			cell, best = c, score
		}
	}
	return cell
}

// mixed is the finalizer of SplitMix64 (Steele, Lea and Flood, 2014): each bit of it depends on each bit of x.
func mixed(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
