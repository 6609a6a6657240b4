package jetstream

import (
	"errors"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/events/journal"
	"github.com/turnlog/turnlog/internal/testing/journaltest"
	"github.com/turnlog/turnlog/internal/testing/natstest"
	"github.com/turnlog/turnlog/internal/tracing"
	"github.com/turnlog/turnlog/jetstream/internal/api"
	"github.com/turnlog/turnlog/jetstream/internal/layout"
)

func TestJournalKeepsTheContract(t *testing.T) {
	t.Parallel()
	for _, c := range journaltest.Cases(journaltest.Features{}) {
		t.Run(c.Name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, cell *Cell) { c.Run(t, cell.Journal()) })
		})
	}
}

func TestJournalKeepsTheContractOnDiskAndOverTCP(t *testing.T) {
	t.Parallel()
	journaltest.Run(t, journaltest.Features{}, func(t *testing.T) journal.Journal {
		s := startServer(t, onDisk(t)...)
		cell := openCell(t, connectTCP(t, s))
		create(t, cell, jetstream.FileStorage, 1)
		return cell.Journal()
	})
}

func TestEntriesCarryTheirHeaders(t *testing.T) {
	inBubble(t, func(t *testing.T, c *Cell) {
		const trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
		j := c.Journal()
		first, err := j.Append(t.Context(), journal.Head{}, journaltest.Entry("s", 1))
		must(t, err)
		e := journaltest.Entry("s", 2)
		e.Events = append(e.Events, e.Events[0])
		second, err := j.Append(tracing.With(t.Context(), trace, "tenant=acme"), first, e)
		must(t, err)
		m, err := c.api.Last(t.Context(), c.names.JournalStream(), c.names.Journal("s"))
		must(t, err)
		for key, want := range map[string]string{
			layout.HeaderGuard: strconv.FormatUint(first.Guard, 10),
			layout.HeaderSeq:   "2",
			layout.HeaderHash:  second.Hash.String(),
			layout.HeaderTrace: trace,
		} {
			if got := m.Header.Get(key); got != want {
				t.Errorf("%s = %q, want %q", key, got, want)
			}
		}
		if len(m.Header) != 4 {
			t.Errorf("%d headers, want the 4 that are documented: %v", len(m.Header), m.Header)
		}
	})
}

// TestEntriesOfEarlierReleasesAreRead forges the headers that those wrote.
func TestEntriesOfEarlierReleasesAreRead(t *testing.T) {
	inBubble(t, func(t *testing.T, c *Cell) {
		var head journal.Head
		for n := range 4 {
			payload, header := sealed(t, head, journaltest.Entry("s", n+1))
			header[layout.HeaderPrev] = []string{head.Hash.String()}
			header[layout.HeaderKinds] = []string{"input_queued,warning"}
			header["Turnlog-Version"] = []string{"1"}
			forge(t, c, "s", payload, header)
			head = journal.Head{Seq: head.Seq + 1, Hash: events.HashOf(payload), Guard: head.Guard + 1}
		}
		next, err := c.Journal().Append(t.Context(), head, journaltest.Entry("s", 5))
		must(t, err)
		for after := range 5 {
			records, err := drain(c.Journal().Read(t.Context(), "s", uint64(after)))
			if err != nil || len(records) != 5-after || records[len(records)-1].Head != next {
				t.Errorf("Read after %d = %d records, %v, want %d that end at %+v", after, len(records), err, 5-after, next)
			}
		}
	})
}

func TestReadPassesOverABlobWithoutIt(t *testing.T) {
	inBubble(t, func(t *testing.T, c *Cell) {
		j := c.Journal()
		heads := journaltest.Fill(t, j, "s", journal.Head{}, 1)
		large := journaltest.Entry("s", 2)
		large.Cause = strings.Repeat("x", maxInline)
		head, err := j.Append(t.Context(), heads[1], large)
		must(t, err)
		heads = journaltest.Fill(t, j, "s", head, 1)
		must(t, c.api.Purge(t.Context(), c.names.BlobStream(), ">", 0))
		records, err := drain(j.Read(t.Context(), "s", 2))
		if err != nil || len(records) != 1 || records[0].Head != heads[len(heads)-1] {
			t.Errorf("Read = %d records, %v, want the one after the entry whose blob is gone", len(records), err)
		}
		if _, err := drain(j.Read(t.Context(), "s", 1)); !errors.Is(err, ErrBlobMissing) {
			t.Errorf("Read of that entry ends with %v, want ErrBlobMissing", err)
		}
	})
}

func TestReadFromStartsAfterItsHead(t *testing.T) {
	inBubble(t, func(t *testing.T, c *Cell) {
		j := c.Journal()
		heads := journaltest.Fill(t, j, "s", journal.Head{}, 9)
		journaltest.Fill(t, j, "other", journal.Head{}, 3)
		for at, head := range heads {
			n := head.Seq
			for rec, err := range j.ReadFrom(t.Context(), "s", head) {
				must(t, err)
				if n++; rec.Head != heads[n] {
					t.Fatalf("from %d: got %+v, want %+v", at, rec.Head, heads[n])
				}
			}
			if n != 9 {
				t.Errorf("from %d: ended at %d of 9", at, n)
			}
		}
		wrong := heads[4]
		wrong.Hash[0]++
		if _, err := drain(j.ReadFrom(t.Context(), "s", wrong)); !errors.Is(err, journal.ErrDamaged) {
			t.Errorf("after a head of another chain: %v, want ErrDamaged", err)
		}
	})
}

// drain returns the records of a sequence and the error that it ends with.
func drain(records iter.Seq2[journal.Record, error]) ([]journal.Record, error) {
	return natstest.Collect(records)
}

// forge writes a message into a journal without any of the checks of Append.
func forge(t *testing.T, c *Cell, s content.SessionID, payload []byte, header nats.Header) {
	t.Helper()
	_, err := c.api.Publish(t.Context(), &nats.Msg{Subject: c.names.Journal(s), Data: payload, Header: header})
	must(t, err)
}

// sealed is an entry as Append would write it after head, for a test to damage.
func sealed(t *testing.T, head journal.Head, e events.Entry) (payload []byte, header nats.Header) {
	t.Helper()
	e, payload, next, err := journal.Link(head, e)
	must(t, err)
	msg := nats.NewMsg("")
	describe(msg, head, e, next, "")
	delete(msg.Header, layout.HeaderGuard)
	return payload, msg.Header
}

func TestDamageIsDescribed(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		write func(t *testing.T, c *Cell, head journal.Head)
		want  string
	}{
		{"a byte was changed", func(t *testing.T, c *Cell, head journal.Head) {
			payload, header := sealed(t, head, journaltest.Entry("s", 4))
			payload[len(payload)-1] ^= 1
			forge(t, c, "s", payload, header)
		}, "entry 4 at 4 of the stream: its bytes have the hash"},
		{"an entry is missing", func(t *testing.T, c *Cell, head journal.Head) {
			head.Seq++
			payload, header := sealed(t, head, journaltest.Entry("s", 5))
			forge(t, c, "s", payload, header)
		}, "entry 5 follows 3"},
		{"an entry is there twice", func(t *testing.T, c *Cell, head journal.Head) {
			head.Seq--
			payload, header := sealed(t, head, journaltest.Entry("s", 3))
			forge(t, c, "s", payload, header)
		}, "entry 3 follows 3"},
		{"a second chain begins", func(t *testing.T, c *Cell, head journal.Head) {
			payload, header := sealed(t, journal.Head{Seq: head.Seq, Hash: events.HashOf(nil)}, journaltest.Entry("s", 4))
			forge(t, c, "s", payload, header)
		}, "entry 4 names e3b0c442"},
		{"an entry of another session", func(t *testing.T, c *Cell, head journal.Head) {
			payload, header := sealed(t, head, journaltest.Entry("other", 4))
			forge(t, c, "s", payload, header)
		}, `entry of session "other"`},
		{"no entry at all", func(t *testing.T, c *Cell, _ journal.Head) {
			forge(t, c, "s", []byte("hello"), nil)
		}, "journal damaged: s, message 4 of the stream: its bytes have the hash 2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824, its header has"},
		{"no entry with a good hash", func(t *testing.T, c *Cell, _ journal.Head) {
			forge(t, c, "s", []byte("hello"), nats.Header{layout.HeaderHash: {events.HashOf([]byte("hello")).String()}})
		}, "bad entry"},
		{"a blob is gone", func(t *testing.T, c *Cell, _ journal.Head) {
			forge(t, c, "s", nil, nats.Header{layout.HeaderBlob: {strings.Repeat("ab", 32)}, layout.HeaderSeq: {"4"}})
		}, "blob is missing"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, c *Cell) {
				j := c.Journal()
				heads := journaltest.Fill(t, j, "s", journal.Head{}, 3)
				tt.write(t, c, heads[3])
				for _, after := range []uint64{0, 2, 3} {
					records, err := drain(j.Read(t.Context(), "s", after))
					if !errors.Is(err, journal.ErrDamaged) || !strings.Contains(err.Error(), tt.want) {
						t.Errorf("Read after %d ends with %v, want ErrDamaged: …%s…", after, err, tt.want)
					}
					if len(records) != int(3-after) {
						t.Errorf("Read after %d yields %d records before the damage, want %d", after, len(records), 3-after)
					}
				}
				if _, err := drain(j.Follow(within(t, time.Minute), "s", 0)); !errors.Is(err, journal.ErrDamaged) {
					t.Errorf("Follow ends with %v, want ErrDamaged", err)
				}
			})
		})
	}
}

// TestUnknownKindsAreReadRaw writes what a later release might.
func TestUnknownKindsAreReadRaw(t *testing.T) {
	inBubble(t, func(t *testing.T, c *Cell) {
		j := c.Journal()
		head := journaltest.Fill(t, j, "s", journal.Head{}, 1)[1]
		payload, header := sealed(t, head, journaltest.Entry("s", 2))
		payload = []byte(strings.Replace(string(payload), "warning", "wArning", 1))
		header[layout.HeaderHash] = []string{events.HashOf(payload).String()}
		forge(t, c, "s", payload, header)
		head, err := j.Append(t.Context(), journal.Head{Seq: 2, Hash: events.HashOf(payload), Guard: 2}, journaltest.Entry("s", 3))
		must(t, err)

		records, err := drain(j.Read(t.Context(), "s", 0))
		must(t, err)
		if len(records) != 3 || records[2].Head != head {
			t.Fatalf("%d records, want 3 that end at %+v", len(records), head)
		}
		if rec := records[1]; !errors.Is(rec.Err, events.ErrUnknownKind) || rec.Entry.Cause != "command-2" || !slices.Equal(rec.Payload, payload) {
			t.Errorf("record = %v, cause %q; want ErrUnknownKind with the entry's head and bytes", rec.Err, rec.Entry.Cause)
		}
		if records[0].Err != nil || records[2].Err != nil {
			t.Errorf("errors of the entries around it: %v, %v", records[0].Err, records[2].Err)
		}
	})
}

// TestEntriesOfALaterFormatAreReadRaw writes what a later release might.
func TestEntriesOfALaterFormatAreReadRaw(t *testing.T) {
	inBubble(t, func(t *testing.T, c *Cell) {
		j := c.Journal()
		head := journaltest.Fill(t, j, "s", journal.Head{}, 1)[1]
		late := func(spoil func([]byte) []byte) {
			t.Helper()
			payload, header := sealed(t, head, journaltest.Entry("s", int(head.Seq)+1))
			payload = spoil(payload)
			header[layout.HeaderPrev] = []string{head.Hash.String()}
			header[layout.HeaderHash] = []string{events.HashOf(payload).String()}
			forge(t, c, "s", payload, header)
			head = journal.Head{Seq: head.Seq + 1, Hash: events.HashOf(payload), Guard: head.Guard + 1}
		}
		late(func(b []byte) []byte { b[1] = 9; return b })
		late(func([]byte) []byte { return []byte{0x92, 9, 0x80} }) // another layout
		head, err := j.Append(t.Context(), head, journaltest.Entry("s", 4))
		must(t, err)
		records, err := drain(j.Read(t.Context(), "s", 0))
		must(t, err)
		if len(records) != 4 || records[3].Head != head || records[3].Err != nil {
			t.Fatalf("%d records, want 4 that end at %+v", len(records), head)
		}
		for _, rec := range records[1:3] {
			if !errors.Is(rec.Err, events.ErrUnknownKind) || !strings.Contains(rec.Err.Error(), "format version 9") ||
				rec.Entry.Session != "s" || rec.Entry.Seq != rec.Seq || rec.Entry.At == 0 {
				t.Errorf("record %d = %v, %+v", rec.Seq, rec.Err, rec.Entry)
			}
		}
	})
}

// TestAppendDistinguishesItsOutcomes lets a fake stream answer appends.
func TestAppendDistinguishesItsOutcomes(t *testing.T) {
	const plain = "neither"
	for _, tt := range []struct{ name, answer, want string }{
		{"stored", `{"stream":"S","seq":7}`, ""},
		{"api.Message in a domain", `{"stream":"S","domain":"d","seq":7}`, ""},
		{"api.Message, with more to say", `{"stream":"S","seq":7,"duplicate": true}`, ""},
		{"guard refused", `{"error":{"code":400,"err_code":10071,"description":"wrong last sequence: 3"}}`, "conflict"},
		{"a write is in flight", `{"error":{"code":400,"err_code":10164,"description":"wrong last sequence"}}`, "conflict"},
		{"too large", `{"error":{"code":400,"err_code":10054,"description":"message size exceeds maximum allowed"}}`, plain},
		{"guard cannot be checked", `{"error":{"code":503,"err_code":10163,"description":"temporarily unavailable"}}`, plain},
		{"store failed", `{"error":{"code":503,"err_code":10077,"description":"no space left on device"}}`, "unknown"},
		{"not the leader", `{"error":{"code":500,"err_code":10009,"description":"can not handle request"}}`, "unknown"},
		{"nonsense", `+OK`, "unknown"},
		{"no sequence", `{"stream":"S"}`, "unknown"},
		{"no answer", ``, "unknown"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inBareBubble(t, func(t *testing.T, c *Cell) {
				_, err := c.nc.Subscribe(c.names.Journal(AllSessions), func(m *nats.Msg) {
					if tt.answer != "" {
						must(t, m.Respond([]byte(tt.answer)))
					}
				})
				must(t, err)
				start := time.Now()
				head, err := c.Journal().Append(t.Context(), journal.Head{}, journaltest.Entry("s", 1))
				if got := outcome(err); got != tt.want {
					t.Errorf("Append = %v, which is %q, want %q", err, got, tt.want)
				}
				if wantGuard := map[bool]uint64{true: 7}[tt.want == ""]; head.Guard != wantGuard {
					t.Errorf("guard = %d, want %d", head.Guard, wantGuard)
				}
				if took := time.Since(start); took > api.PublishTimeout {
					t.Errorf("took %v, want at most %v", took, api.PublishTimeout)
				}
			})
		})
	}
}

func outcome(err error) string {
	switch conflict, unknown := errors.Is(err, journal.ErrConflict), errors.Is(err, journal.ErrUnknown); {
	case conflict && unknown:
		return "both"
	case conflict:
		return "conflict"
	case unknown:
		return "unknown"
	case err != nil:
		return "neither"
	}
	return ""
}

func TestAppendWithoutAStreamIsErrNotProvisioned(t *testing.T) {
	inBareBubble(t, func(t *testing.T, c *Cell) {
		_, err := c.Journal().Append(t.Context(), journal.Head{}, journaltest.Entry("s", 1))
		if !errors.Is(err, ErrNotProvisioned) || outcome(err) != "neither" {
			t.Errorf("Append = %v, want ErrNotProvisioned: it cannot have been written", err)
		}
		if _, err := c.Journal().Last(t.Context(), "s"); !errors.Is(err, ErrNotProvisioned) {
			t.Errorf("Last = %v, want ErrNotProvisioned", err)
		}
		if _, err := drain(c.Journal().Read(t.Context(), "s", 0)); !errors.Is(err, ErrNotProvisioned) {
			t.Errorf("Read = %v, want ErrNotProvisioned", err)
		}
	})
}

func TestAppendOnAClosedConnectionWritesNothing(t *testing.T) {
	inBubble(t, func(t *testing.T, c *Cell) {
		head := journaltest.Fill(t, c.Journal(), "s", journal.Head{}, 1)[1]
		c.nc.Close()
		if _, err := c.Journal().Append(t.Context(), head, journaltest.Entry("s", 2)); err == nil {
			t.Error("Append on a closed connection succeeds")
		}
		if _, err := c.Journal().Last(t.Context(), "s"); !errors.Is(err, nats.ErrConnectionClosed) {
			t.Errorf("Last = %v, want that the connection is closed", err)
		}
	})
}

func TestSessionsAreListed(t *testing.T) {
	inBubble(t, func(t *testing.T, c *Cell) {
		j := c.Journal()
		if got, err := j.Sessions(t.Context()); err != nil || len(got) != 0 {
			t.Fatalf("Sessions of an empty cell = %v, %v", got, err)
		}
		var want []content.SessionID
		for i := range 50 {
			s := content.SessionID(fmt.Sprintf("s-%02d", i))
			journaltest.Fill(t, j, s, journal.Head{}, 1+i%3)
			want = append(want, s)
		}
		got, err := j.Sessions(t.Context())
		must(t, err)
		if !slices.Equal(got, want) {
			t.Errorf("Sessions = %v, want %v", got, want)
		}
	})
}

// lagging makes the next direct read of a stream return nothing, as from a lagging replica.
func lagging(t *testing.T, c *Cell, name string) {
	t.Helper()
	stream, err := jsOf(t, c).Stream(t.Context(), name)
	must(t, err)
	cfg := stream.CachedInfo().Config
	direct := func(is bool) {
		cfg.AllowDirect = is
		if _, err := jsOf(t, c).UpdateStream(t.Context(), cfg); err != nil {
			t.Error(err)
		}
	}
	direct(false)
	var sub *nats.Subscription
	sub, err = c.nc.Subscribe(api.DirectGet+name, func(msg *nats.Msg) {
		_ = sub.Unsubscribe()
		direct(true)
		_ = c.nc.PublishMsg(&nats.Msg{Subject: msg.Reply, Header: nats.Header{"Status": {"404"}}})
	})
	must(t, err)
	must(t, c.nc.FlushWithContext(within(t, time.Minute)))
}

func TestReadIncludesAcknowledgedEntriesThatAReplicaLacks(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, c *Cell) {
		j := c.Journal()
		heads := journaltest.Fill(t, j, "s", journal.Head{}, 3)
		lagging(t, c, c.names.JournalStream())
		if got, err := drain(j.Read(t.Context(), "s", 0)); err != nil || len(got) != 3 {
			t.Errorf("Read = %d records, %v, want 3", len(got), err)
		}
		lagging(t, c, c.names.JournalStream())
		if got, err := drain(j.ReadFrom(t.Context(), "s", heads[2])); err != nil || len(got) != 1 {
			t.Errorf("ReadFrom = %d records, %v, want 1", len(got), err)
		}
	})
}
