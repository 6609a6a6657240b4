package jetstream

import (
	"bytes"
	"errors"
	"net"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/tool"
)

func offer(worker string, tools ...string) Offer {
	o := Offer{Worker: worker, Queue: "tools"}
	for _, name := range tools {
		o.Tools = append(o.Tools, tool.Spec{
			Name: name, Description: "does " + name, InputSchema: []byte(`{"type":"object"}`),
			Effects: content.ReadOnly, Timeout: time.Minute,
		})
	}
	return o
}

func watch(t *testing.T, c *Cell) *CatalogView {
	t.Helper()
	v, err := c.Catalog().Watch(t.Context())
	must(t, err)
	t.Cleanup(v.Close)
	return v
}

func wantOffers(t *testing.T, v *CatalogView, want ...Offer) {
	t.Helper()
	synctest.Wait()
	if want == nil {
		want = []Offer{}
	}
	if diff := cmp.Diff(want, v.Snapshot()); diff != "" {
		t.Fatalf("catalog (-want +got):\n%s", diff)
	}
}

func changed(v *CatalogView) bool {
	select {
	case <-v.Changed():
		return true
	default:
		return false
	}
}

func TestCatalogListsCurrentOffers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := startServer(t)
		c := provision(t, connect(t, s))
		must(t, c.Catalog().Advertise(t.Context(), offer("w2", "fs_read_file")))
		early := watch(t, openCell(t, connect(t, s)))
		wantOffers(t, early, offer("w2", "fs_read_file")) // offered before the view existed
		changed(early)
		must(t, c.Catalog().Advertise(t.Context(), offer("w1", "shell_exec")))
		wantOffers(t, early, offer("w1", "shell_exec"), offer("w2", "fs_read_file"))
		if !changed(early) || changed(early) {
			t.Error("a new offer is not one change")
		}
		must(t, c.Catalog().Advertise(t.Context(), offer("w2", "fs_read_file")))
		wantOffers(t, early, offer("w1", "shell_exec"), offer("w2", "fs_read_file"))
		if changed(early) {
			t.Error("a renewal counts as a change")
		}
		must(t, c.Catalog().Advertise(t.Context(), offer("w2", "fs_read_file", "fs_write_file")))
		late := watch(t, c)
		for _, v := range []*CatalogView{early, late} {
			wantOffers(t, v, offer("w1", "shell_exec"), offer("w2", "fs_read_file", "fs_write_file"))
		}
	})
}

func TestWithdrawnOfferIsGoneAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCell(t)
		must(t, c.Catalog().Advertise(t.Context(), offer("w1", "a")))
		must(t, c.Catalog().Advertise(t.Context(), offer("w2", "b")))
		v := watch(t, c)
		start := time.Now()
		must(t, c.Catalog().Withdraw(t.Context(), "w1"))
		wantOffers(t, v, offer("w2", "b"))
		if !time.Now().Equal(start) {
			t.Errorf("it took %v", time.Since(start))
		}
		must(t, c.Catalog().Withdraw(t.Context(), "absent"))
		must(t, c.Catalog().Advertise(t.Context(), offer("w1", "a"))) // the worker returns
		wantOffers(t, v, offer("w1", "a"), offer("w2", "b"))
	})
}

func TestOfferOfADeadWorkerExpires(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCell(t)
		v := watch(t, c)
		must(t, c.Catalog().Advertise(t.Context(), offer("dead", "a")))
		for range 10 {
			must(t, c.Catalog().Advertise(t.Context(), offer("alive", "b")))
			<-time.After(3 * time.Second)
		}
		wantOffers(t, v, offer("alive", "b"))
		wantOffers(t, watch(t, c), offer("alive", "b"))
		<-time.After(time.Minute)
		wantOffers(t, v)
		wantOffers(t, watch(t, c))
	})
}

func TestCatalogSurvivesAReconnect(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := startServer(t)
		c := provision(t, connect(t, s))
		nc := connect(t, s)
		v := watch(t, openCell(t, nc))
		reconnect(t, nc)
		<-time.After(time.Second)
		for range 20 {
			must(t, c.Catalog().Advertise(t.Context(), offer("w1", "a")))
			<-time.After(3 * time.Second)
		}
		wantOffers(t, v, offer("w1", "a"))
	})
}

func TestCatalogOfAMissingCellIsAnError(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := openCell(t, connect(t, startServer(t)))
		if _, err := c.Catalog().Watch(t.Context()); !errors.Is(err, ErrNotProvisioned) {
			t.Errorf("Watch = %v, want ErrNotProvisioned", err)
		}
		if err := c.Catalog().Advertise(t.Context(), offer("a.b")); !errors.Is(err, content.ErrBadID) {
			t.Errorf("Advertise = %v, want ErrBadID", err)
		}
		if err := c.Catalog().Advertise(t.Context(), offer("w1")); !errors.Is(err, ErrNotProvisioned) {
			t.Errorf("Advertise = %v, want ErrNotProvisioned", err)
		}
	})
}

// losing is a connection that loses the first request of each kind.
type losing struct {
	nats.InProcessConnProvider

	kinds []string
}

// InProcessConn returns the client's end of a connection.
func (l *losing) InProcessConn() (net.Conn, error) {
	c, err := l.InProcessConnProvider.InProcessConn()
	return losingConn{c, l}, err
}

type losingConn struct {
	net.Conn

	way *losing
}

// Write drops the first request of each kind.
func (c losingConn) Write(b []byte) (int, error) {
	before := len(c.way.kinds)
	c.way.kinds = slices.DeleteFunc(c.way.kinds, func(kind string) bool { return bytes.Contains(b, []byte(kind)) })
	if len(c.way.kinds) < before {
		return len(b), nil
	}
	return c.Conn.Write(b)
}

// TestWatchRetriesALostRequest checks that Watch does not wait for the lost answer until its context
// ends.
func TestWatchRetriesALostRequest(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := startServer(t)
		c := provision(t, connect(t, s))
		way := new(losing)
		nc := connect(t, s, func(o *nats.Options) error {
			way.InProcessConnProvider = o.InProcessServer
			o.InProcessServer = way
			return nil
		})
		if _, err := nc.RequestWithContext(within(t, time.Second), "absent", nil); !errors.Is(err, nats.ErrNoResponders) { // now it receives answers
			t.Fatal(err)
		}
		way.kinds = []string{"STREAM.INFO", "CONSUMER.CREATE"}
		v, err := openCell(t, nc).Catalog().Watch(within(t, time.Hour))
		must(t, err)
		t.Cleanup(v.Close)
		if len(way.kinds) > 0 {
			t.Fatalf("no request was lost of %v", way.kinds)
		}
		must(t, c.Catalog().Advertise(t.Context(), offer("w1", "a")))
		wantOffers(t, v, offer("w1", "a"))
	})
}
