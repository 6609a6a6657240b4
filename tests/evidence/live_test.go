package evidence

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/turnlog/turnlog/audit"
	"github.com/turnlog/turnlog/audit/attached"
	"github.com/turnlog/turnlog/audit/keys"
	"github.com/turnlog/turnlog/audit/origin"
	"github.com/turnlog/turnlog/audit/signed"
	"github.com/turnlog/turnlog/audit/verdict"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/engine"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/events/journal"
	"github.com/turnlog/turnlog/internal/testing/natstest"
	"github.com/turnlog/turnlog/jetstream"
	"github.com/turnlog/turnlog/jetstream/admin"
	"github.com/turnlog/turnlog/jetstream/signers"
	"github.com/turnlog/turnlog/loop/snapshot"
)

func TestMain(m *testing.M) { natstest.Main(m) }

const subject = "turnlog.journal.s-1"

// stage is a deployment with the journal of one session. Its operator can change all streams, but cannot sign.
type stage struct {
	*cast

	cell   *jetstream.Cell
	nc     *nats.Conn
	end    journal.Head    // when the session was at rest
	known  *keys.Directory // the directory that the auditor has
	failed error           // why the auditor could not get a directory

	restores []verdict.Restore // restores that the deployment records
}

// newStage starts a server for the tests of a table, which run one after the other, each with prepare.
func newStage(t *testing.T) *stage {
	t.Helper()
	s := &stage{nc: natstest.Connect(t, natstest.Start(t))}
	var err error
	if s.cell, err = jetstream.Open(s.nc, cell); err != nil {
		t.Fatal(err)
	}
	natstest.Must(t, admin.Of(s.cell).Provision(t.Context(), admin.Config{Memory: true}))
	return s
}

// prepare starts over with other keys.
func (s *stage) prepare(t *testing.T) {
	t.Helper()
	s.cast = newCast(t)
	s.perform(s.signedEntries(), s.node)
	s.known, s.failed, s.restores = s.opened(&s.dir), nil, nil
}

// opened returns a directory as the root signed it.
func (s *stage) opened(d *keys.Directory) *keys.Directory {
	s.t.Helper()
	raw, err := d.Sign(s.root)
	natstest.Must(s.t, err)
	out, err := keys.Open(raw, s.root.Public())
	natstest.Must(s.t, err)
	return out
}

// ask makes a request to the JetStream API.
func (s *stage) ask(what, body string, into any) {
	s.t.Helper()
	m, err := s.nc.RequestWithContext(s.t.Context(), "$JS.API.STREAM."+what, []byte(body))
	natstest.Must(s.t, err)
	if strings.Contains(string(m.Data), `"error"`) {
		s.t.Fatalf("%s: %s", what, m.Data)
	}
	if into != nil {
		natstest.Must(s.t, json.Unmarshal(m.Data, into))
	}
}

func (s *stage) purge() { s.ask("PURGE.TURNLOG_JOURNAL", fmt.Sprintf(`{"filter":%q}`, subject), nil) }

// perform writes the journal, as a driver with a key.
func (s *stage) perform(list []events.Entry, by *keys.Signer) {
	s.t.Helper()
	s.purge()
	s.end = journal.Head{}
	s.extend(by, list...)
}

// extend writes more entries.
func (s *stage) extend(by *keys.Signer, list ...events.Entry) {
	s.t.Helper()
	for _, e := range list {
		var err error
		e.Seq, e.Prev = 0, events.Hash{}
		s.end, err = s.cell.Signing(by).Journal().Append(s.t.Context(), s.end, e)
		natstest.Must(s.t, err)
	}
}

// entry is one that a driver of an epoch appends.
func entry(epoch uint64, evs ...events.Event) events.Entry {
	return events.Entry{Session: "s-1", Cause: "cmd-x", At: 1_700_000_000_000_000_100, Epoch: epoch, Events: evs}
}

// messages are those of the journal.
func (s *stage) messages() (out []*nats.Msg) {
	s.t.Helper()
	for seq := uint64(1); len(out) < int(s.end.Seq); seq++ { //nolint:gosec // a few
		var got struct {
			Message struct {
				Seq        uint64
				Hdrs, Data string
			}
		}
		s.ask("MSG.GET.TURNLOG_JOURNAL", fmt.Sprintf(`{"seq":%d,"next_by_subj":%q}`, seq, subject), &got)
		seq = got.Message.Seq
		header, err := base64.StdEncoding.DecodeString(got.Message.Hdrs)
		natstest.Must(s.t, err)
		data, err := base64.StdEncoding.DecodeString(got.Message.Data)
		natstest.Must(s.t, err)
		h, err := nats.DecodeHeadersMsg(header)
		natstest.Must(s.t, err)
		for name := range h {
			if !strings.HasPrefix(name, "Turnlog-") {
				h.Del(name)
			}
		}
		out = append(out, &nats.Msg{Subject: subject, Header: h, Data: data})
	}
	return out
}

// replay replaces the messages of the journal.
func (s *stage) replay(edit func(m []*nats.Msg) []*nats.Msg) {
	s.t.Helper()
	all := s.messages()
	s.purge()
	s.publish(edit(all)...)
}

func (s *stage) publish(all ...*nats.Msg) {
	s.t.Helper()
	for _, m := range all {
		if _, err := s.nc.RequestMsgWithContext(s.t.Context(), m); err != nil {
			s.t.Fatal(err)
		}
	}
}

// judge verifies the journal as it is in the stream, as observer verify does, with or without --every-signature.
func (s *stage) judge(every bool) (*verdict.Verdict, error) {
	s.t.Helper()
	if _, err := s.cell.Journal().Last(s.t.Context(), "s-1"); errors.Is(err, journal.ErrNotFound) {
		return &verdict.Verdict{}, err
	}
	who, files, says, fork := signed.NewAudit(s.known, every), attached.Files{}, audit.Claims{}, origin.Fork{}
	v, err := audit.Verify(who.Watch(says.Watch(fork.Watch(files.Watch(s.cell.Journal().Read(s.t.Context(), "s-1", 0))))))
	who.Judge(v)
	for _, f := range says.Compare(s.restores) {
		v.Add(f)
	}
	if err == nil {
		err = errors.Join(files.Judge(s.t.Context(), v, s.cell.Blobs()), fork.Judge(s.t.Context(), v, engine.Reader{Journal: s.cell.Journal()}.ReadTo))
	}
	return v, err
}

// scene is what an operator did with a deployment, and what an auditor finds.
type scene struct {
	name string
	do   func(s *stage)
	kind verdict.Kind // of the first fault; "": none
	seq  uint64       // of its entry
	exit int          // with --require signed
}

// TestEveryFalsifiedStreamIsFound verifies journals that were changed in their stream, some with other forged data.
func TestEveryFalsifiedStreamIsFound(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	rows := slices.Concat(editedStreams(), forgedEntriesInStreams(), tombstonesInStreams(), revokedKeys(), publishedDirectories())
	for _, row := range rows {
		s.prepare(t)
		row.do(s)
		v, err := s.judge(true)
		err = errors.Join(err, s.failed)
		first, _ := v.First()
		exit := v.Exit(verdict.Signed)
		if err != nil && v.OK() { // as observer verify does
			exit = verdict.ExitFault
		}
		if first.Kind != row.kind || first.Seq != row.seq || exit != row.exit {
			t.Errorf("%s: exit code %d, %v, %v\nwant %d, entry %d, %s", row.name, exit, v.Faults, err, row.exit, row.seq, row.kind)
		}
	}
}

// edit returns a change of the messages of a journal.
func edit(do func(m []*nats.Msg) []*nats.Msg) func(*stage) {
	return func(s *stage) { s.replay(do) }
}

// header changes a header of entry 5.
func header(name string, to func(string) string) func(*stage) {
	return edit(func(m []*nats.Msg) []*nats.Msg {
		m[4].Header.Set(name, to(m[4].Header.Get(name)))
		return m
	})
}

// data changes the bytes of entry 5, and with fit its hash.
func data(fit bool, to func([]byte) []byte) func(*stage) {
	return edit(func(m []*nats.Msg) []*nats.Msg {
		if m[4].Data = to(m[4].Data); fit {
			m[4].Header.Set("Turnlog-Hash", events.HashOf(m[4].Data).String())
		}
		return m
	})
}

func editedStreams() []scene {
	flipped := func(b []byte) []byte { b[len(b)/2] ^= 1; return b }
	otherWord := func(b []byte) []byte { return []byte(strings.Replace(string(b), "main.go", "evil.go", 1)) }
	always := func(to string) func(string) string { return func(string) string { return to } }
	second := func(name, value string) func(*stage) {
		return edit(func(m []*nats.Msg) []*nats.Msg { m[4].Header.Add(name, value); return m })
	}
	marked := edit(func(m []*nats.Msg) []*nats.Msg {
		for _, m := range m {
			m.Header.Set("Turnlog-Stored", "2026-11-28T12:00:00Z")
		}
		return m
	})
	return []scene{
		{"stream: as it was", func(*stage) {}, "", 0, 0},
		{"stream: copied", edit(func(m []*nats.Msg) []*nats.Msg { return m }), "", 0, 0},
		{"stream: a bit of an entry", data(false, flipped), verdict.Tampered, 5, 1},
		{"stream: a word of an entry", data(false, otherWord), verdict.Tampered, 5, 1},
		{"stream: a word of an entry, with its hash", data(true, otherWord), verdict.Forged, 5, 1}, // the reply asks for something else; its signature and the next entry do not fit either
		{"stream: a word that says nothing, with its hash", edit(func(m []*nats.Msg) []*nats.Msg {
			m[1].Data = []byte(strings.Replace(string(m[1].Data), "demo", "dema", 1))
			m[1].Header.Set("Turnlog-Hash", events.HashOf(m[1].Data).String())
			return m
		}), verdict.Replaced, 3, 1},
		{"stream: an entry cut off", data(false, func(b []byte) []byte { return b[:20] }), verdict.Tampered, 5, 1},
		{"stream: an entry cut off, with its hash", data(true, func(b []byte) []byte { return b[:20] }), verdict.Unreadable, 5, 1},
		{"stream: an empty entry", data(false, func([]byte) []byte { return nil }), verdict.Tampered, 5, 1},
		{"stream: an entry and more", data(true, func(b []byte) []byte { return append(b, 0) }), verdict.Unreadable, 5, 1},
		{"stream: another number", header("Turnlog-Seq", always("6")), verdict.Tampered, 5, 1},
		{"stream: another hash", header("Turnlog-Hash", always(strings.Repeat("ab", 32))), verdict.Tampered, 5, 1},
		{"stream: another predecessor", header("Turnlog-Prev", always(strings.Repeat("ab", 32))), verdict.Tampered, 5, 1},
		{"stream: no number", header("Turnlog-Seq", always("")), "", 0, 0}, // the bytes say it
		{"stream: a second number", second("Turnlog-Seq", "7"), verdict.Tampered, 5, 1},
		{"stream: a second hash", second("Turnlog-Hash", strings.Repeat("ab", 32)), verdict.Tampered, 5, 1},
		{"stream: a second signature", second("Turnlog-Sig", "abc.def"), verdict.Tampered, 5, 1},
		{"stream: a number in another case", edit(func(m []*nats.Msg) []*nats.Msg { m[4].Header["turnlog-seq"] = []string{"7"}; return m }), verdict.Tampered, 5, 1},
		{"stream: other kinds", second("Turnlog-Kinds", "session_deleted"), verdict.Tampered, 5, 1},
		{"stream: a payload that is a blob", second("Turnlog-Blob", strings.Repeat("ab", 32)), verdict.Missing, 5, 1},
		{"stream: all marked as moved here", marked, verdict.Forged, 9, 1},
		{"stream: no signature", header("Turnlog-Sig", always("")), verdict.Forged, 5, 1},
		{"stream: no signatures", edit(func(m []*nats.Msg) []*nats.Msg {
			for i := range m {
				m[i].Header.Del("Turnlog-Sig")
			}
			return m
		}), verdict.Forged, 1, 1},
		{"stream: the signature of another entry", edit(func(m []*nats.Msg) []*nats.Msg {
			m[4].Header.Set("Turnlog-Sig", m[5].Header.Get("Turnlog-Sig"))
			return m
		}), verdict.Forged, 5, 1},
		{"stream: a signature that is none", header("Turnlog-Sig", always("hello")), verdict.Forged, 5, 1},
		{"stream: an entry less", edit(func(m []*nats.Msg) []*nats.Msg { return slices.Delete(m, 4, 5) }), verdict.Missing, 5, 1},
		{"stream: the first entry less", edit(func(m []*nats.Msg) []*nats.Msg { return m[1:] }), verdict.Missing, 1, 1},
		{"stream: the approval less", edit(func(m []*nats.Msg) []*nats.Msg { return slices.Delete(m, 5, 7) }), verdict.Missing, 6, 1},
		{"stream: an entry deleted", func(s *stage) {
			s.ask("MSG.DELETE.TURNLOG_JOURNAL", fmt.Sprintf(`{"seq":%d}`, s.end.Guard-3), nil)
		}, verdict.Missing, 6, 1},
		{"stream: two swapped", edit(func(m []*nats.Msg) []*nats.Msg { m[4], m[5] = m[5], m[4]; return m }), verdict.Missing, 5, 1},
		{"stream: reversed", edit(func(m []*nats.Msg) []*nats.Msg { slices.Reverse(m); return m }), verdict.Missing, 1, 1},
		{"stream: an entry twice", edit(func(m []*nats.Msg) []*nats.Msg { return slices.Insert(m, 4, m[4]) }), verdict.Tampered, 6, 1},
		{"stream: the end twice", edit(func(m []*nats.Msg) []*nats.Msg { return append(m, m[8]) }), verdict.Tampered, 10, 1},
		{"stream: all twice", edit(func(m []*nats.Msg) []*nats.Msg { return append(m, m...) }), verdict.Tampered, 10, 1},
		{"stream: purged", func(s *stage) { s.purge() }, "", 0, 1},
		{"stream: no entry", func(s *stage) { s.publish(&nats.Msg{Subject: subject, Data: []byte("hello")}) }, verdict.Tampered, 10, 1},
		{"stream: an entry of another session", edit(func(m []*nats.Msg) []*nats.Msg {
			m[4].Data = []byte(strings.Replace(string(m[4].Data), "s-1", "s-2", 1))
			m[4].Header.Set("Turnlog-Hash", events.HashOf(m[4].Data).String())
			return m
		}), verdict.Foreign, 5, 1},
	}
}

func forgedEntriesInStreams() []scene {
	added := func(by func(s *stage) *keys.Signer, list ...events.Entry) func(*stage) {
		return func(s *stage) { s.extend(by(s), list...) }
	}
	no := func(*stage) *keys.Signer { return nil }
	node := func(s *stage) *keys.Signer { return s.node }
	warning := entry(1, events.Warning{Code: "x"})
	claim := func(by func(s *stage) *keys.Signer, named bool) func(*stage) {
		return func(s *stage) {
			c := events.DriverClaimed{Epoch: 2, Node: "n2", Keys: 1}
			if named {
				c.Key = by(s).ID()
			}
			s.extend(by(s), entry(2, c))
		}
	}
	stranger := func(s *stage) *keys.Signer { return s.stranger }
	rewrite := func(by func(s *stage) *keys.Signer, change func(e []events.Entry)) func(*stage) {
		return func(s *stage) {
			list := s.signedEntries()
			change(list)
			s.perform(list, by(s))
		}
	}
	hello := []content.Item{content.UserText("hello")}
	forkOf := func(from string) func(*stage) {
		return rewrite(node, func(e []events.Entry) {
			e[1].Events[0] = edited1(e[1].Events[0], func(r *events.RunStarted) { r.From = from })
		})
	}
	return []scene{
		{"forged: an entry without a signature", added(no, warning), verdict.Forged, 10, 1},
		{"forged: an entry of a stranger", added(stranger, warning), verdict.Forged, 10, 1},
		{"forged: an entry of another driver", added(func(s *stage) *keys.Signer { return s.other }, warning), verdict.Forged, 10, 1},
		{"forged: an entry of a person", added(func(s *stage) *keys.Signer { return s.ada }, warning), verdict.Forged, 10, 1},
		{"forged: an entry of an epoch that no driver claimed", added(node, entry(2, events.Warning{Code: "x"})), verdict.Forged, 10, 1},
		{"forged: an entry after its driver parked", func(s *stage) {
			s.extend(s.node, entry(1, events.Parked{}))
			e := entry(1, events.Warning{Code: "x"})
			e.Cause = "cmd-y"
			s.extend(s.node, e)
		}, verdict.Forged, 11, 1},
		{"forged: a claim of a stranger", claim(stranger, true), verdict.Forged, 10, 1},
		{"forged: a claim of a worker", claim(func(s *stage) *keys.Signer { return s.gpu }, true), verdict.Forged, 10, 1},
		{"forged: a claim without a key", claim(no, false), "", 0, verdict.ExitBelow},
		{"forged: a claim without a key, which is required", func(s *stage) {
			s.dir.Require(keys.Driver, 1)
			s.known = s.opened(&s.dir)
			claim(no, false)(s)
		}, verdict.Forged, 10, 1},
		{"forged: a cause twice", func(s *stage) {
			e := entry(1, events.Warning{Code: "x"})
			e.Cause = "cmd-c"
			s.extend(s.node, e)
		}, verdict.Forged, 10, 1},
		{"forged: another result", rewrite(node, func(e []events.Entry) {
			e[7].Events[0] = edited1(e[7].Events[0], func(r *events.ToolResultReceived) {
				r.Result = content.NewResult("c1", "write", content.StatusOK, "all is well")
			})
		}), verdict.Forged, 8, 1},
		{"forged: a second result", added(node, entry(1, events.ToolResultReceived{
			Turn: "turn-1", Round: 1, Attempt: 1, Result: content.NewResult("c1", "write", content.StatusOK, "again"),
		})), verdict.Forged, 10, 1},
		{"forged: a decision in a name", rewrite(node, func(e []events.Entry) {
			e[6].Events[1] = edited1(e[6].Events[1], func(r *events.ApprovalResolved) { r.By = "alice" })
		}), verdict.Forged, 7, 1},
		{"forged: a decision for always", rewrite(node, func(e []events.Entry) {
			e[6].Events[1] = edited1(e[6].Events[1], func(r *events.ApprovalResolved) { r.Always = true })
		}), verdict.Forged, 7, 1},
		{"forged: a decision that was not asked for", added(node, entry(1, events.ApprovalResolved{Approval: "a2", Call: "c1", Outcome: events.Approved, By: "ada"})), verdict.Forged, 10, 1},
		{"forged: a snapshot of another state", added(node, entry(1, events.SnapshotTaken{Format: snapshot.Version, Digest: events.HashOf([]byte("forged"))})), verdict.Forged, 10, 1},
		{"forged: input as a notification", added(node, entry(1, events.InputQueued{Items: hello, Origin: events.FromNotification})), verdict.Forged, 10, 1},
		{"forged: input as a correction", added(node, entry(1, events.InputQueued{Items: hello, Origin: events.FromSchema})), verdict.Forged, 10, 1},
		{"forged: a notification of no result", rewrite(node, func(e []events.Entry) {
			e[7].Events = slices.Insert(e[7].Events, 2, events.Event(events.InputAccepted{Turn: "turn-1", Items: hello, Origin: events.FromNotification}))
		}), verdict.Forged, 8, 1},
		{"forged: notes of no task", rewrite(node, func(e []events.Entry) {
			e[3].Events = slices.Insert(e[3].Events, 3, events.Event(events.MemoryRecalled{Items: hello}))
		}), verdict.Forged, 4, 1},
		{"forged: two claims in an entry", func(s *stage) {
			s.claims(s.node, 2, events.DriverClaimed{Key: s.node.ID()}, events.DriverClaimed{Epoch: 3, Key: s.other.ID()})
		}, verdict.Forged, 10, 1},
		{"forged: a fork of no entry", forkOf("hello"), verdict.Forged, 2, 1},
		{"forged: a fork of an entry of this session with another hash", forkOf("s-1@5#" + strings.Repeat("ab", 32)), verdict.Replaced, 2, 1},
		{"forged: the history, by a stranger", rewrite(stranger, func(e []events.Entry) {}), verdict.Forged, 1, 1},
		{"forged: a file that was attached is gone", func(s *stage) {
			it := content.UserText("read it")
			it.Parts = append(it.Parts, content.BlobPart("notes.txt", "text/plain", strings.Repeat("ab", 32), 5))
			s.extend(s.node, entry(1, events.InputQueued{Items: []content.Item{it}, Origin: events.FromHost}))
		}, verdict.Missing, 10, 1},
	}
}

func tombstonesInStreams() []scene {
	// addTombstone appends a possibly false tombstone, signed by a keeper or another key, and removes entries from the front.
	addTombstone := func(by func(s *stage) *keys.Signer, d events.SessionDeleted, removed int) func(*stage) {
		return func(s *stage) {
			s.extend(by(s), entry(1, d))
			s.replay(func(m []*nats.Msg) []*nats.Msg { return m[removed:] })
		}
	}
	no := func(*stage) *keys.Signer { return nil }
	return []scene{
		{"tombstone: of a keeper", addTombstone(no, events.SessionDeleted{By: "kim"}, 9), "", 0, verdict.ExitGone},
		{"tombstone: half removed", addTombstone(no, events.SessionDeleted{By: "kim"}, 4), "", 0, verdict.ExitGone},
		{"tombstone: of a driver", addTombstone(func(s *stage) *keys.Signer { return s.node }, events.SessionDeleted{By: "kim"}, 9), "", 0, verdict.ExitGone},
		{"tombstone: expired", addTombstone(no, events.SessionDeleted{Expired: true}, 9), "", 0, verdict.ExitGone},
		{"tombstone: signed by a stranger", addTombstone(func(s *stage) *keys.Signer { return s.stranger }, events.SessionDeleted{By: "kim"}, 9), verdict.Forged, 10, 1},
		{"tombstone: of a move", addTombstone(no, events.SessionDeleted{MovedTo: &events.MovedTo{Cell: "b"}}, 9), "", 0, verdict.ExitGone},
		{"tombstone: of a move, and an entry is missing", func(s *stage) {
			s.extend(nil, entry(1, events.SessionDeleted{MovedTo: &events.MovedTo{Cell: "b"}}))
			s.replay(func(m []*nats.Msg) []*nats.Msg { return slices.Delete(m, 3, 4) })
		}, verdict.Missing, 10, 1},
		{"tombstone: of an erasure, of a session that is not sealed", addTombstone(no, events.SessionDeleted{Erased: true}, 0), verdict.Forged, 10, 1},
		{"tombstone: once more, after a restore that was not", addTombstone(no, events.SessionDeleted{By: "kim", Restored: &events.Restored{Backup: "b1", Taken: 1}}, 9), verdict.Forged, 10, 1},
		{"tombstone: with another event", func(s *stage) {
			s.extend(nil, entry(1, events.SessionDeleted{By: "kim"}, events.Warning{Code: "x"}))
			s.replay(func(m []*nats.Msg) []*nats.Msg { return m[9:] })
		}, verdict.Missing, 1, 1},
		{"tombstone: a gap before it", func(s *stage) {
			s.extend(nil, entry(1, events.SessionDeleted{By: "kim"}))
			s.replay(func(m []*nats.Msg) []*nats.Msg { return slices.Delete(m, 5, 7) })
		}, verdict.Missing, 10, 1},
		{"tombstone: an entry after it", func(s *stage) {
			s.extend(nil, entry(1, events.SessionDeleted{By: "kim"}))
			before := s.end
			s.publish(s.linked(before, entry(1, events.Warning{Code: "y"})))
		}, verdict.Forged, 11, 1},
	}
}

// linked is an entry in the form of the stream, which no Append would write.
func (s *stage) linked(after journal.Head, e events.Entry) *nats.Msg {
	s.t.Helper()
	e.Cause = "cmd-z"
	_, payload, head, err := journal.Link(after, e)
	natstest.Must(s.t, err)
	return &nats.Msg{Subject: subject, Data: payload, Header: nats.Header{
		"Turnlog-Seq": {strconv.FormatUint(head.Seq, 10)}, "Turnlog-Hash": {head.Hash.String()}, "Turnlog-Prev": {after.Hash.String()},
	}}
}

// revokedKeys are directories in which the dates of keys decide.
func revokedKeys() []scene {
	ended := func(n int, r keys.Revocation) func(*stage) {
		return func(s *stage) {
			s.dir.Keys[n].Revoked = &r
			s.known = s.opened(&s.dir)
		}
	}
	const later = content.Time(4e18)
	return []scene{
		{"revoked: the driver's key, before", ended(0, keys.Revocation{At: 1}), verdict.Forged, 1, 1},
		{"revoked: the driver's key, later", ended(0, keys.Revocation{At: later}), "", 0, 0},
		{"revoked: the driver's key was stolen before", ended(0, keys.Revocation{At: 1, Stolen: true}), verdict.Forged, 1, 1},
		{"revoked: the driver's key was stolen later", ended(0, keys.Revocation{At: later, Stolen: true}), "", 0, 0},
		{"revoked: the person's key, before", ended(2, keys.Revocation{At: 1}), verdict.Forged, 3, 1},
		{"revoked: the person's key after it signed, and before it was recorded", ended(2, keys.Revocation{At: 1_750_000_000_000_000_000}), "", 0, 0},
		{"revoked: the person's key was stolen after the signature is dated", ended(2, keys.Revocation{At: 1_750_000_000_000_000_000, Stolen: true}), verdict.Forged, 3, 1},
		{"revoked: the worker's key, before", ended(3, keys.Revocation{At: 1}), verdict.Forged, 8, 1},
	}
}

// publishedDirectories are directories that the auditor finds in the deployment.
func publishedDirectories() []scene {
	published := func(do func(s *stage)) func(*stage) {
		return func(s *stage) {
			s.ask("DELETE.TURNLOG_SIGNERS", "", nil)
			natstest.Must(s.t, admin.Of(s.cell).Provision(s.t.Context(), admin.Config{Memory: true}))
			do(s)
			d, err := signers.Open(s.t.Context(), s.cell, s.root.Public())
			if s.failed = err; err == nil {
				s.known = d.Newest()
			}
		}
	}
	put := func(s *stage, version uint64, by *keys.Signer, change func(d *keys.Directory)) {
		d := s.dir
		d.Version, d.Keys = version, slices.Clone(d.Keys)
		change(&d)
		raw, err := d.Sign(by)
		natstest.Must(s.t, err)
		natstest.Must(s.t, signers.Publish(s.t.Context(), s.cell, version, raw))
	}
	same := func(*keys.Directory) {}
	none := func(d *keys.Directory) { d.Keys = nil }
	return []scene{
		{"directory: as published", published(func(s *stage) { put(s, 1, s.root, same) }), "", 0, 0},
		{"directory: another root's later version", published(func(s *stage) {
			put(s, 1, s.root, same)
			other, err := keys.NewRoot()
			natstest.Must(s.t, err)
			put(s, 2, other, none)
		}), "", 0, 0},
		{"directory: a later version without the keys", published(func(s *stage) {
			put(s, 1, s.root, same)
			put(s, 2, s.root, none)
		}), "", 0, 1},
		{"directory: of no root", published(func(*stage) {}), "", 0, 1},
		{"directory: without the driver", published(func(s *stage) {
			put(s, 1, s.root, func(d *keys.Directory) { d.Keys = d.Keys[1:] })
		}), verdict.Forged, 1, 1},
		{"directory: older than the driver's", published(func(s *stage) {
			list := s.signedEntries()
			list[0].Events[0] = events.DriverClaimed{Epoch: 1, Node: "n1", Key: s.node.ID(), Keys: 2}
			s.perform(list, s.node)
			put(s, 1, s.root, same)
		}), verdict.Newer, 9, verdict.ExitUnjudged},
	}
}
