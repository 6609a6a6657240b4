//go:build !unix

package bench

import "time"

// cpuTime returns 0: this system has no common way to measure it.
func cpuTime() time.Duration { return 0 }
