package actor

import "sync"

// cache remembers what was made for each key. When it is full it starts over: its values can
// be made again. The zero cache is ready, and safe for concurrent use.
type cache[K comparable, V any] struct {
	mu     sync.Mutex
	values map[K]V
}

// maxCached bounds a cache.
const maxCached = 256

// get returns the value for a key. If there is none it calls build, whose error is not kept.
func (c *cache[K, V]) get(key K, build func() (V, error)) (V, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if v, ok := c.values[key]; ok {
		return v, nil
	}
	v, err := build()
	if err != nil {
		return v, err
	}
	if c.values == nil || len(c.values) >= maxCached {
		c.values = make(map[K]V)
	}
	c.values[key] = v
	return v, nil
}
