package notary

import (
	"net/http"
	"testing"
	"time"
)

func TestANotaryReportsHowFarItIs(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, d *deployment) {
		d.rest(0, 3)
		away := true
		d.asks = func(w http.ResponseWriter, _ *http.Request) bool {
			if away {
				w.WriteHeader(http.StatusServiceUnavailable)
			}
			return away
		}
		n := d.notary(d.Cell)
		var got []Status
		n.Report = func(s Status) { got = append(got, s) }
		must(t, d.run(n, 20*time.Second))
		last := got[len(got)-1]
		if last.Size != 3 || last.Published != 0 || last.Waiting != 0 || last.Err == nil {
			t.Errorf("without its witness: %+v", last)
		}
		away, got = false, nil
		n = d.notary(d.Cell)
		n.Report = func(s Status) { got = append(got, s) }
		must(t, d.run(n, 20*time.Second))
		if last := got[len(got)-1]; last != (Status{Size: 3, Published: 3}) {
			t.Errorf("with its witness: %+v", last)
		}
	})
}
