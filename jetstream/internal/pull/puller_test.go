package pull

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/turnlog/turnlog/internal/testing/natstest"
	"github.com/turnlog/turnlog/jetstream/internal/api"
)

// fakeConsumer answers requests for messages as a test says.
type fakeConsumer struct {
	nc       *nats.Conn
	requests chan *nats.Msg
}

func newFakeConsumer(t *testing.T, nc *nats.Conn) *fakeConsumer {
	t.Helper()
	f := &fakeConsumer{nc: nc, requests: make(chan *nats.Msg, 1024)}
	_, err := nc.ChanSubscribe(api.MsgNext+"S.C", f.requests)
	natstest.Must(t, err)
	synctest.Wait()
	return f
}

// request returns the next request, which has to come within the time.
func (f *fakeConsumer) request(t *testing.T, patience time.Duration) *nats.Msg {
	t.Helper()
	select {
	case m := <-f.requests:
		return m
	case <-time.After(patience):
		t.Fatalf("no request within %v", patience)
		return nil
	}
}

func (f *fakeConsumer) say(t *testing.T, to *nats.Msg, status, description string) {
	t.Helper()
	natstest.Must(t, f.nc.PublishMsg(&nats.Msg{Subject: to.Reply, Header: nats.Header{"Status": {status}, "Description": {description}}}))
}

// give sends a message as a consumer does: under its own subject.
func (f *fakeConsumer) give(t *testing.T, p *Puller, subject string) {
	t.Helper()
	p.receive(&nats.Msg{Subject: subject, Reply: "$JS.ACK.S.C.1.1.1.1.1", Data: []byte("x")})
}

func TestMain(m *testing.M) { natstest.Main(m) }

type taken struct {
	subject string
	err     error
}

func takeFrom(ctx context.Context, p *Puller) <-chan taken {
	out := make(chan taken, 1)
	go func() {
		msg, err := p.Take(ctx)
		if err != nil {
			out <- taken{err: err}
			return
		}
		out <- taken{subject: msg.Subject}
	}()
	return out
}

func wantTaken(t *testing.T, got <-chan taken, subject string) {
	t.Helper()
	select {
	case m := <-got:
		if m.err != nil || m.subject != subject {
			t.Fatalf("took %q, %v, want %q", m.subject, m.err, subject)
		}
	case <-time.After(time.Second):
		t.Fatalf("nothing was taken, want %q", subject)
	}
}

// pulling returns a puller and the consumer that it pulls from.
func pulling(t *testing.T) (*Puller, *fakeConsumer, *[]string) {
	t.Helper()
	s := natstest.Start(t)
	var strays []string
	p := New(natstest.Connect(t, s), "S", "C", func(m *nats.Msg) { strays = append(strays, m.Subject) })
	return p, newFakeConsumer(t, natstest.Connect(t, s)), &strays
}

func TestPullerReplacesExpiredRequests(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p, f, _ := pulling(t)
		got := takeFrom(t.Context(), p)
		first := f.request(t, time.Second)
		if want := fmt.Sprintf(`"expires":%d`, expiry); !strings.Contains(string(first.Data), want) {
			t.Errorf("request %s, want %s", first.Data, want)
		}
		f.say(t, first, statusExpired, "Request Timeout")
		f.request(t, time.Second)                      // at once
		lost := f.request(t, expiry+grace+time.Second) // the second one is lost
		f.say(t, lost, "409", "Leadership Change")
		short := f.request(t, time.Second)
		if want := fmt.Sprintf(`"expires":%d`, shortExpiry); !strings.Contains(string(short.Data), want) {
			t.Errorf("request in trouble %s, want %s", short.Data, want)
		}
		f.request(t, shortExpiry+grace+time.Second)
		f.give(t, p, "a")
		wantTaken(t, got, "a")
	})
}

func TestPullerRetriesRefusedRequests(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p, f, _ := pulling(t)
		got := takeFrom(t.Context(), p)
		for range 30 { // leaders change every 2 s, and requests stand in between
			f.say(t, f.request(t, 2*time.Second), "409", "Leadership Change")
			f.request(t, time.Second)
			<-time.After(shortExpiry + grace - time.Millisecond)
		}
		synctest.Wait()
		f.give(t, p, "a")
		wantTaken(t, got, "a")
	})
}

func TestPullerFailsAfterPersistentRefusals(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p, f, _ := pulling(t)
		one, two := takeFrom(t.Context(), p), takeFrom(t.Context(), p)
		refuse := make(chan struct{})
		go func() {
			for {
				select {
				case r := <-f.requests:
					f.say(t, r, "409", "Consumer is push based")
				case <-refuse:
					return
				}
			}
		}()
		start := time.Now()
		for _, got := range []<-chan taken{one, two} {
			if m := <-got; m.err == nil || !strings.Contains(m.err.Error(), "Consumer is push based") {
				t.Errorf("take = %q, %v, want the server's description", m.subject, m.err)
			}
		}
		if took := time.Since(start); took < api.Patience || took > api.Patience+time.Second {
			t.Errorf("it gave up after %v, want %v", took, api.Patience)
		}
		close(refuse)
	})
}

func TestPullerHasOneRequestPerTaker(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p, f, strays := pulling(t)
		leaving, cancel := context.WithCancelCause(t.Context())
		gone := takeFrom(leaving, p)
		f.request(t, time.Second)
		why := errors.New("drained")
		cancel(why)
		if m := <-gone; !errors.Is(m.err, why) {
			t.Fatalf("take = %v, want the cause", m.err)
		}
		got := takeFrom(t.Context(), p) // the earlier taker's request serves this one
		synctest.Wait()
		if len(f.requests) != 0 {
			t.Error("a second request was sent while one is pending")
		}
		f.give(t, p, "a")
		wantTaken(t, got, "a")
		f.give(t, p, "b") // there is no taker
		if len(*strays) != 1 || (*strays)[0] != "b" {
			t.Errorf("strays %v, want b", *strays)
		}
	})
}

// batches returns how many messages the requests that arrived are for.
func (f *fakeConsumer) batches(t *testing.T) (all []int) {
	t.Helper()
	synctest.Wait()
	for len(f.requests) > 0 {
		var r struct{ Batch int }
		natstest.Must(t, json.Unmarshal((<-f.requests).Data, &r))
		all = append(all, r.Batch)
	}
	return all
}

// Of eight takers, two are for messages of the server.
func TestOfferedMessagesGoToTheOtherTakers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p, f, strays := pulling(t)
		var takers []<-chan taken
		for range 8 {
			takers = append(takers, takeFrom(t.Context(), p))
			synctest.Wait()
		}
		for i, got := range takers[:6] {
			if !p.Offer(&nats.Msg{Subject: strconv.Itoa(i)}) {
				t.Errorf("offer %d found no taker", i)
			}
			wantTaken(t, got, strconv.Itoa(i))
		}
		if p.Offer(&nats.Msg{Subject: "more"}) {
			t.Error("another one found a taker that the server may need")
		}
		for i, got := range takers[6:] {
			f.give(t, p, strconv.Itoa(i))
			wantTaken(t, got, strconv.Itoa(i))
		}
		natstest.Must(t, p.Close(t.Context()))
		if p.Offer(&nats.Msg{Subject: "late"}) || len(*strays) > 0 {
			t.Errorf("after the end: strays %v", *strays)
		}
	})
}

func TestTakersShareRequests(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p, f, strays := pulling(t)
		var takers []<-chan taken
		take := func(n int) {
			for range n {
				takers = append(takers, takeFrom(t.Context(), p))
				synctest.Wait()
			}
		}
		give := func(n int) {
			for i := range n {
				f.give(t, p, strconv.Itoa(i))
				wantTaken(t, takers[i], strconv.Itoa(i))
			}
			takers = takers[n:]
		}
		wantBatches := func(when string, want ...int) {
			t.Helper()
			if got := f.batches(t); !slices.Equal(got, want) {
				t.Errorf("%s: requests for %v messages, want %v", when, got, want)
			}
		}
		take(1)
		first := f.request(t, time.Second)
		take(31)
		wantBatches("32 takers", 1, 2, 4)
		give(4)
		wantBatches("28 takers, and the server may send four more")
		give(2)
		wantBatches("26 takers, after the server might have sent only three more", 4)

		<-time.After(time.Second)
		natstest.Must(t, f.nc.PublishMsg(&nats.Msg{Subject: first.Reply, Header: nats.Header{"Status": {statusExpired}, headerUnsent: {"8"}}}))
		wantBatches("none of them will be sent", 7)
		<-time.After(expiry + grace)
		wantBatches("no answer", 7)
		give(7)
		if len(*strays) > 0 {
			t.Errorf("strays %v", *strays)
		}
	})
}
