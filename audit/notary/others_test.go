package notary

import (
	"errors"
	"testing"
	"time"

	"github.com/turnlog/turnlog/audit/headlog"
	"github.com/turnlog/turnlog/jetstream/heads"
)

// A process that may write the state of the log can add any leaf. No leaf without a journal entry is signed, and none keeps
// the true heads out of the log.
func TestANotarySignsNoFalseLeaf(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		leaf headlog.Leaf
		want error
	}{
		"of an entry beyond the journal": {headlog.Leaf{Cell: "turnlog", Session: "s-0", Seq: 1 << 62}, errAhead},
		"of no session":                  {headlog.Leaf{Cell: "turnlog", Session: "none", Seq: 1}, errAhead},
		"of another hash":                {headlog.Leaf{Cell: "turnlog", Session: "s-0", Seq: 2}, ErrFalseLeaf},
		"of another, earlier hash":       {headlog.Leaf{Cell: "turnlog", Session: "s-0", Seq: 1}, ErrFalseLeaf},
		"of another cell":                {headlog.Leaf{Cell: "other", Session: "s-0", Seq: 1}, ErrFalseLeaf},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in(t, func(t *testing.T, d *deployment) {
				d.rest(0, 2)
				d.settle()
				d.rest(0, 2)
				s, number, err := heads.Of(d.Cell).State(t.Context())
				must(t, err)
				next, err := s.Append([][]byte{row.leaf.Text()})
				must(t, err)
				next.Position, next.Indexed = s.Position, s.Indexed
				_, err = heads.Of(d.Cell).Commit(t.Context(), next, number)
				must(t, err)
				err = d.run(d.notary(d.Cell), time.Minute)
				if !errors.Is(err, row.want) {
					t.Errorf("Run = %v, want %v", err, row.want)
				}
				if last, _, err := d.witness.Last("example.com/log"); err != nil || last.N != s.Tree.Size {
					t.Errorf("the witness has cosigned %v, %v", last, err)
				}
			})
		})
	}
}
