// Package allocated measures the memory that decoders take for hostile bytes.
package allocated

import "runtime"

// By returns how many bytes f allocates, freed or not. Other goroutines are idle meanwhile, so
// a test that calls it is not parallel.
func By(f func()) int64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return int64(after.TotalAlloc - before.TotalAlloc) //nolint:gosec // far from the limits
}

// Slack is what a decoder may allocate in addition to what its input requires, for example on first use.
const Slack = 1 << 20
