// Package memo keeps values that take time to build.
package memo

import "sync"

// Cache builds one value for each key. When it is full it starts over, since its values can be built
// again. The zero cache is ready, and safe for concurrent use.
type Cache[K comparable, V any] struct {
	mu     sync.Mutex
	values map[K]func() (V, error)
}

// Max is the maximum number of values in a cache.
const Max = 256

// Get returns the value of a key. If there is none it calls build, once for all callers that wait
// for it. An error is not kept. Other keys do not wait.
func (c *Cache[K, V]) Get(key K, build func() (V, error)) (value V, err error) {
	c.mu.Lock()
	get, known := c.values[key]
	if !known {
		if c.values == nil || len(c.values) >= Max {
			c.values = make(map[K]func() (V, error))
		}
		get = sync.OnceValues(build)
		c.values[key] = get
	}
	c.mu.Unlock()
	built := false
	defer func() { // build may also panic
		if !built {
			c.mu.Lock()
			defer c.mu.Unlock()
			delete(c.values, key)
		}
	}()
	value, err = get()
	built = err == nil
	return value, err
}
