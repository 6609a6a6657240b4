package actor

import "sync"

// cache builds one value for each key. When it is full it starts over, since its values can be built
// again. The zero cache is ready, and safe for concurrent use.
type cache[K comparable, V any] struct {
	mu     sync.Mutex
	values map[K]func() (V, error)
}

// maxCached bounds a cache.
const maxCached = 256

// get returns the value of a key. If there is none it calls build, once for all callers that wait
// for it. An error is not kept. Other keys do not wait.
func (c *cache[K, V]) get(key K, build func() (V, error)) (value V, err error) {
	c.mu.Lock()
	get, known := c.values[key]
	if !known {
		if c.values == nil || len(c.values) >= maxCached {
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
