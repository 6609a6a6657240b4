package compare

import "slices"

// Change is one difference between two sessions.
type Change struct {
	Change string `json:"change"` // added: only B has it; dropped: only A has it; changed
	A      *Step  `json:"a,omitempty"`
	B      *Step  `json:"b,omitempty"`
}

// Row is a step of A, of B, or of both, as they are shown side by side.
type Row struct {
	A, B *Step // nil: that session has no such step
	Same bool
}

// Diff is how two sessions differ.
type Diff struct {
	Same    bool     `json:"same"` // they have the same steps, in the same order
	A       Side     `json:"a"`
	B       Side     `json:"b"`
	First   *Change  `json:"first,omitempty"` // the first of Changes
	Changes []Change `json:"changes"`
	Rows    []Row    `json:"-"`
}

// Between compares two sessions.
func Between(a, b *Reader) *Diff {
	d := &Diff{A: a.Side, B: b.Side, Changes: []Change{}}
	x, y := a.steps, b.steps
	i, j := 0, 0
	for _, m := range append(common(x, y), match{len(x), len(y)}) {
		d.gap(x[i:m.a], y[j:m.b])
		if m.a < len(x) {
			d.Rows = append(d.Rows, Row{&x[m.a], &y[m.b], true})
		}
		i, j = m.a+1, m.b+1
	}
	if len(d.Changes) > 0 {
		d.First = &d.Changes[0]
	}
	d.Same = len(d.Changes) == 0
	return d
}

// gap adds the steps between two steps that both sessions have. Steps of the same kind and tool count as
// changes, in order.
func (d *Diff) gap(x, y []Step) {
	for i := range x {
		s := &x[i]
		j := slices.IndexFunc(y, func(t Step) bool { return t.Kind == s.Kind && t.Tool == s.Tool })
		if j < 0 {
			d.add(Change{"dropped", s, nil})
			continue
		}
		for k := range y[:j] {
			d.add(Change{"added", nil, &y[k]})
		}
		d.add(Change{"changed", s, &y[j]})
		y = y[j+1:]
	}
	for k := range y {
		d.add(Change{"added", nil, &y[k]})
	}
}

func (d *Diff) add(c Change) {
	d.Changes = append(d.Changes, c)
	d.Rows = append(d.Rows, Row{c.A, c.B, false})
}

// match is a step that both have.
type match struct{ a, b int }

// maxEdits bounds the work. Sessions with more differences share only their beginning and their end.
const maxEdits = 1_000

// common returns a longest common subsequence of steps, by Myers's greedy algorithm.
func common(x, y []Step) []match {
	var head, tail []match
	for len(head) < min(len(x), len(y)) && x[len(head)].same(y[len(head)]) {
		head = append(head, match{len(head), len(head)})
	}
	n, m := len(x), len(y)
	for n > len(head) && m > len(head) && x[n-1].same(y[m-1]) {
		n, m = n-1, m-1
		tail = append(tail, match{n, m})
	}
	slices.Reverse(tail)
	return slices.Concat(head, middle(x[:n], y[:m], len(head)), tail)
}

// middle is common for the steps from index from on.
func middle(x, y []Step, from int) []match {
	n, m := len(x)-from, len(y)-from
	if n == 0 || m == 0 {
		return nil
	}
	limit := min(n+m, maxEdits)
	far := make([]int, 2*limit+2) // by diagonal: how far into x a path with that many edits gets
	var trace [][]int
	for edits := 0; edits <= limit; edits++ {
		trace = append(trace, slices.Clone(far))
		for k := -edits; k <= edits; k += 2 {
			i := reach(far, limit, k, edits)
			for i < n && i-k < m && x[from+i].same(y[from+i-k]) {
				i++
			}
			far[limit+k] = i
			if i >= n && i-k >= m {
				return back(trace, limit, n, m, from)
			}
		}
	}
	return nil
}

// reach is where the diagonal begins with one edit more than its neighbors had.
func reach(far []int, limit, k, edits int) int {
	switch {
	case edits == 0:
		return 0
	case k == -edits || k != edits && far[limit+k-1] < far[limit+k+1]:
		return far[limit+k+1]
	}
	return far[limit+k-1] + 1
}

// back follows the shortest path back and collects the common steps.
func back(trace [][]int, limit, i, j, from int) (out []match) {
	for edits, far := range slices.Backward(trace) {
		k := i - j
		prev := reach(far, limit, k, edits)
		for i > prev {
			i, j = i-1, j-1
			out = append(out, match{from + i, from + j})
		}
		if edits == 0 {
			break
		}
		if k == -edits || k != edits && far[limit+k-1] < far[limit+k+1] {
			j--
		} else {
			i--
		}
	}
	slices.Reverse(out)
	return out
}
