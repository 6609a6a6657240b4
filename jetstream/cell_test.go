package jetstream

import (
	"strings"
	"testing"
)

func TestBadNamespacesAreRejected(t *testing.T) {
	t.Parallel()
	nc := connect(t, startServer(t))
	for _, ns := range []string{"a.b", "*", ">", "a b", strings.Repeat("x", 129)} {
		if c, err := Open(nc, ns); err == nil {
			t.Errorf("Open(%q) = %v, want an error", ns, c)
		}
	}
	if got := openCell(t, nc).Namespace(); got != DefaultNamespace {
		t.Errorf("namespace = %q, want the default %q", got, DefaultNamespace)
	}
}
