package watch

import (
	"container/list"

	"github.com/turnlog/turnlog/content"
)

// recent has a value for sessions, in the order of their last use.
type recent[T any] struct {
	values map[content.SessionID]*list.Element
	order  list.List // of used[T], the oldest first
}

type used[T any] struct {
	id    content.SessionID
	value T
}

func (r *recent[T]) len() int { return len(r.values) }

func (r *recent[T]) get(id content.SessionID) (value T, ok bool) {
	e, ok := r.values[id]
	if !ok {
		return value, false
	}
	return e.Value.(used[T]).value, true //nolint:forcetypeassert // nothing else is in the list
}

// put sets the value of a session, which is now the newest.
func (r *recent[T]) put(id content.SessionID, value T) {
	r.remove(id)
	if r.values == nil {
		r.values = map[content.SessionID]*list.Element{}
	}
	r.values[id] = r.order.PushBack(used[T]{id, value})
}

func (r *recent[T]) remove(id content.SessionID) {
	if e, ok := r.values[id]; ok {
		r.order.Remove(e)
		delete(r.values, id)
	}
}

// oldest returns the session that was used before all others. There must be one.
func (r *recent[T]) oldest() (content.SessionID, T) {
	u := r.order.Front().Value.(used[T]) //nolint:forcetypeassert // nothing else is in the list
	return u.id, u.value
}
