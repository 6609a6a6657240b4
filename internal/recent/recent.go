// Package recent keeps values by key, and knows which was least recently used.
package recent

import "container/list"

// Map has values by key, in the order of their last use. The zero Map is empty.
type Map[K comparable, V any] struct {
	values map[K]*list.Element
	order  list.List // of used[K, V], the oldest first
}

type used[K comparable, V any] struct {
	key   K
	value V
}

// Len returns how many values there are.
func (m *Map[K, V]) Len() int { return len(m.values) }

// Get returns the value of a key.
func (m *Map[K, V]) Get(key K) (value V, ok bool) {
	e, ok := m.values[key]
	if !ok {
		return value, false
	}
	return e.Value.(used[K, V]).value, true //nolint:forcetypeassert // nothing else is in the list
}

// Put sets the value of a key, which is now the newest.
func (m *Map[K, V]) Put(key K, value V) {
	m.Remove(key)
	if m.values == nil {
		m.values = map[K]*list.Element{}
	}
	m.values[key] = m.order.PushBack(used[K, V]{key, value})
}

// Remove removes the value of a key, if there is one.
func (m *Map[K, V]) Remove(key K) {
	if e, ok := m.values[key]; ok {
		m.order.Remove(e)
		delete(m.values, key)
	}
}

// Oldest returns the least recently used value. There must be a value.
func (m *Map[K, V]) Oldest() (K, V) {
	u := m.order.Front().Value.(used[K, V]) //nolint:forcetypeassert // nothing else is in the list
	return u.key, u.value
}
