package security

import (
	"testing"

	"github.com/nats-io/nats.go"
)

// BenchmarkRoundTrip measures a request of a client that the cell's account answers, with all users in that
// account and across an import.
func BenchmarkRoundTrip(b *testing.B) {
	plain, apart := newCell(b, false), newApart(b, false)
	conns := map[string]*nats.Conn{"one account": plain.connect("client"), "accounts": apart.connect("client")}
	for _, request := range []string{"$JS.API.STREAM.MSG.GET.TURNLOG_JOURNAL", "$O.TURNLOG_BLOBS.C.x"} {
		for name, nc := range conns {
			b.Run(request+"/"+name, func(b *testing.B) {
				for b.Loop() {
					if _, err := nc.RequestWithContext(b.Context(), request, []byte(`{"last_by_subj":"none"}`)); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
