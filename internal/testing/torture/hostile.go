package torture

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/internal/pause"
	"github.com/turnlog/turnlog/jetstream/admin"
	"github.com/turnlog/turnlog/tool"
)

const (
	// hostilePrefix is the prefix of the IDs of everything that a hostile sender sends to other users'
	// sessions. None of it may cause an entry.
	hostilePrefix = "hostile/"
	// forged is the text of forged results and inputs. No journal may hold it.
	forged = "forged by a hostile sender"

	hugeInput    = 3 << 19 // more than fits into a message
	hostilePause = 40 * time.Millisecond
	uselessWakes = 4 // between two pauses
)

// sender is a hostile client or worker. It has its own connection, and publishes only where its role may.
type sender struct {
	role      admin.Role
	namespace string
	victim    content.SessionID
	dice      *rand.Rand
	sent      int
}

// hostile runs a hostile client or worker against one of the sessions while the fault lasts.
func (f *injector) hostile(ctx context.Context, x Fault) (string, bool) {
	w := f.world
	s := &sender{role: admin.RoleClient, namespace: w.site.namespace, victim: w.crowd.pick(x.Pick), dice: rand.New(rand.NewPCG(x.Pick, 0))} //nolint:gosec // repeatable, not secret
	if x.Pick>>32%2 == 0 {
		s.role = admin.RoleWorker
	}
	if s.victim == "" {
		return "", false
	}
	own := content.SessionID(fmt.Sprintf("hostile-%x", x.Pick))
	f.pending.Go(func() {
		ctx, cancel := context.WithTimeout(ctx, x.Length)
		defer cancel()
		nc, c, err := w.site.connect(ctx, "hostile", nil)
		if err != nil {
			w.log.note("hostile sender: %v", err)
			return
		}
		defer nc.Close()
		if s.role == admin.RoleClient {
			w.addHostile(own)
			for _, env := range s.huge(own) {
				if _, err := c.Inbox().Send(ctx, env); err != nil {
					w.log.note("hostile sender: %v", err)
				}
			}
			c.Runs().WakeSoon(own)
		}
		for pause.For(ctx, hostilePause) {
			for _, msg := range s.messages() {
				_ = nc.PublishMsg(msg) // servers come and go
			}
		}
		w.log.note("a hostile %s sent %d messages at %s", s.role, s.sent, s.victim)
	})
	return fmt.Sprintf("a %s, to %s", s.role, s.victim), true
}

func (w *world) addHostile(s content.SessionID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.hostile = append(w.hostile, s)
}

// huge returns the commands of a client for its own session: it opens the session and sends inputs that take
// much memory.
func (s *sender) huge(own content.SessionID) []commands.Envelope {
	open := commands.OpenSession{Config: events.Config{Model: "scripted:torture", ModelData: []byte("replies: [{text: well}]\nrepeat: true\n")}}
	text := commands.SubmitInput{Items: []content.Item{content.UserText(strings.Repeat("so it goes. ", hugeInput/12))}}
	many := commands.SubmitInput{Items: make([]content.Item, 20_000)}
	for i := range many.Items {
		many.Items[i] = content.UserText("x")
	}
	return []commands.Envelope{
		{ID: hostilePrefix + "open", Session: own, Command: open},
		{ID: hostilePrefix + "text", Session: own, Command: text},
		{ID: hostilePrefix + "many", Session: own, Command: many},
	}
}

// messages returns the next messages of the sender: one of each kind, and useless wakes.
func (s *sender) messages() (out []*nats.Msg) {
	lane, wrong := "ask", s.misplaced()
	if s.role == admin.RoleWorker {
		lane, wrong = "report", append(wrong, s.reports()...)
	}
	to := fmt.Sprintf("%s.cmd.%s.%s", s.namespace, s.victim, lane)
	say := func(subject string, data []byte, headers ...string) {
		m := &nats.Msg{Subject: subject, Data: data, Header: nats.Header{}}
		for i := 0; i < len(headers); i += 2 {
			m.Header.Set(headers[i], headers[i+1])
		}
		out = append(out, m)
	}
	for _, c := range wrong {
		raw := s.encoded(s.victim, c)
		say(to, raw)
		say(to, raw, "Turnlog-Ticket", s.random(16))
		say(to, raw[:s.dice.IntN(len(raw))], "Turnlog-Ticket", s.random(16))
	}
	say(to, []byte(s.random(s.dice.IntN(2000))))
	say(to, []byte("\x97\xdd\xff\xff\xff\xff"))
	say(to, append([]byte("\x97"), bytes.Repeat([]byte("\x91"), 60_000)...))
	say(to, s.encoded("another", commands.Cancel{Scope: commands.ScopeTurn}))
	say(to, s.encoded(s.victim, commands.Cancel{Scope: commands.ScopeTurn}), "Nats-Stream", "spoofed")
	blob := strings.Repeat("ab", 32)
	bucket := strings.ToUpper(s.namespace) + "_BLOBS"
	say("$O."+bucket+".M."+base64.URLEncoding.EncodeToString([]byte(blob)),
		fmt.Appendf(nil, `{"name":%q,"bucket":%q,"nuid":"zeros","size":2600000000,"chunks":20000}`, blob, bucket))
	say(to, nil, "Turnlog-Blob", blob)
	say(s.namespace+".run.*", nil)
	for range uselessWakes {
		say(s.namespace+".run."+s.random(8), nil)
	}
	say(s.namespace+".run."+string(s.victim), nil)
	if s.role == admin.RoleWorker {
		say(s.namespace+".delta."+string(s.victim), []byte(s.random(200)))
		say("$KV."+strings.ToUpper(s.namespace)+"_CATALOG.offer.hostile", []byte(s.random(200)))
	}
	return out
}

// misplaced returns commands that the role may not send, on whatever lane.
func (s *sender) misplaced() []commands.Command {
	if s.role == admin.RoleWorker {
		return []commands.Command{
			commands.SubmitInput{Items: []content.Item{content.UserText(forged)}},
			commands.Cancel{Scope: commands.ScopeTurn},
			commands.ResolveApproval{Approve: true, By: forged},
		}
	}
	return append(s.reports(), commands.ResolveApproval{Approve: true, By: forged}, commands.SettleDeadLetter{Call: "c1", Retry: true, By: forged})
}

// reports returns reports about a call that the session may have.
func (s *sender) reports() []commands.Command {
	p, attempt := content.Place(fmt.Sprintf("t%d-r%d-c%d", 1+s.dice.IntN(4), 1+s.dice.IntN(3), 1+s.dice.IntN(3))), 1+s.dice.IntN(2)
	return []commands.Command{
		commands.ReportResult{Place: p, Attempt: attempt, Queue: Queue, Outcome: tool.Result{
			Result: content.NewResult(content.CallID(p), toolAdd, content.StatusOK, forged),
		}},
		commands.ReportAttemptLost{Place: p, Attempt: attempt, Queue: Queue, Reason: forged},
		commands.ReportOvertaken{Place: p, Attempt: attempt, Task: s.dice.Uint64N(2000)},
		commands.ReportQuestion{Place: p, Attempt: attempt, Question: commands.Question{RequestKind: forged}},
	}
}

func (s *sender) encoded(to content.SessionID, c commands.Command) []byte {
	s.sent++
	raw, err := commands.Envelope{ID: fmt.Sprintf("%s%s/%d", hostilePrefix, s.role, s.sent), Session: to, By: forged, Command: c}.Encode()
	if err != nil {
		return []byte(err.Error())
	}
	return raw
}

// random returns letters and digits.
func (s *sender) random(n int) string {
	out := make([]byte, n)
	for i := range out {
		out[i] = "0123456789abcdefghijklmnopqrstuvwxyz"[s.dice.IntN(36)]
	}
	return string(out)
}

// forgeries lists the effects of hostile senders in a session.
func forgeries(rec events.Entry) (out []string) {
	if strings.HasPrefix(rec.Cause, hostilePrefix) {
		out = append(out, fmt.Sprintf("%s caused %v", rec.Cause, rec.Kinds()))
	}
	for _, ev := range rec.Events {
		if r, ok := ev.(events.ToolResultReceived); ok && r.Result.Text() == forged {
			out = append(out, fmt.Sprintf("call %s has a forged result", r.Result.CallID))
		}
	}
	return out
}
