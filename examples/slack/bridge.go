package main

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/turnlog/turnlog/client/webhooks"
)

// bridge shows approvals in a channel of Slack, and passes on which button a person pressed. It keeps nothing: what is
// pending is in the journal, and the gateway takes the first decision.
type bridge struct {
	Hook    string // the secret of the webhook's endpoint
	Channel string // the URL of an incoming webhook of Slack
	Signing string // the signing secret of the Slack app
	Gateway string // the URL of a gateway
	Token   string // of a person with the role approver

	mu   sync.Mutex
	seen map[string]bool // webhook-ids that were shown
}

const (
	maxBody = 1 << 20
	maxSeen = 10_000
	maxAge  = 5 * time.Minute // of a signature of Slack
	maxText = 2500            // Slack refuses a block with more than 3,000 characters
)

func (b *bridge) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /hooks", b.serve(b.show))
	mux.HandleFunc("POST /actions", b.serve(b.decide))
	return mux
}

// errUnsigned is returned for a request whose signature is not valid.
var errUnsigned = errors.New("the signature is not valid")

// serve answers 401 to unsigned requests, and 502 to others that fail, so that they are sent again.
func (b *bridge) serve(handle func(ctx context.Context, h http.Header, body []byte) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
		if err == nil {
			err = handle(r.Context(), r.Header, body)
		}
		switch {
		case errors.Is(err, errUnsigned):
			http.Error(w, err.Error(), http.StatusUnauthorized)
		case err != nil:
			http.Error(w, err.Error(), http.StatusBadGateway)
		}
	}
}

// choice is what a button says.
type choice struct {
	Session  string `json:"session"`
	Approval string `json:"approval"`
	Shown    string `json:"shown"` // the digest of the arguments that the person saw
}

// show posts a message with two buttons for an approval.
func (b *bridge) show(ctx context.Context, h http.Header, body []byte) error {
	verifier, err := standardwebhooks.NewWebhook(b.Hook)
	if err != nil {
		return fmt.Errorf("secret of the webhook: %w", err)
	}
	if verifier.Verify(body, h) != nil {
		return errUnsigned
	}
	var p webhooks.Payload
	if err := json.Unmarshal(body, &p); err != nil {
		return fmt.Errorf("read message: %w", err)
	}
	id := h.Get(standardwebhooks.HeaderWebhookID)
	if p.Type != webhooks.ApprovalNeeded || p.Data.Approval == nil || b.wasSeen(id) {
		return nil
	}
	a := p.Data.Approval
	value, err := json.Marshal(choice{string(p.Data.Session), string(a.ID), a.Digest})
	if err != nil {
		return fmt.Errorf("encode button: %w", err)
	}
	text := fmt.Sprintf("%s wants to run %s: %s", p.Data.Session, a.Tool, a.Input)
	if runes := []rune(text); len(runes) > maxText {
		text = string(runes[:maxText]) + "…"
	}
	button := func(action, label string) map[string]any {
		return map[string]any{"type": "button", "action_id": action, "value": string(value), "text": map[string]any{"type": "plain_text", "text": label}}
	}
	err = post(ctx, b.Channel, nil, map[string]any{"text": text, "blocks": []any{
		map[string]any{"type": "section", "text": map[string]any{"type": "plain_text", "text": text}}, // no markup: a model wrote it
		map[string]any{"type": "actions", "elements": []any{button("approve", "Approve"), button("deny", "Deny")}},
	}})
	if err == nil {
		b.see(id)
	}
	return err
}

// wasSeen reports whether a message was shown. After a restart it may be shown twice, which does no harm.
func (b *bridge) wasSeen(id string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.seen[id]
}

func (b *bridge) see(id string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.seen == nil || len(b.seen) >= maxSeen {
		b.seen = make(map[string]bool)
	}
	b.seen[id] = true
}

// decide submits the decision of a person who pressed a button, and replaces the buttons by what came of it.
func (b *bridge) decide(ctx context.Context, h http.Header, body []byte) error {
	if !b.signed(h, body, time.Now()) {
		return errUnsigned
	}
	form, err := url.ParseQuery(string(body))
	if err != nil {
		return fmt.Errorf("read action: %w", err)
	}
	var pressed struct {
		User struct {
			Name string `json:"username"`
		} `json:"user"`
		Actions []struct {
			ID    string `json:"action_id"`
			Value string `json:"value"`
		} `json:"actions"`
		Answer string `json:"response_url"`
	}
	var c choice
	if err = json.Unmarshal([]byte(form.Get("payload")), &pressed); err == nil && len(pressed.Actions) == 1 {
		err = json.Unmarshal([]byte(pressed.Actions[0].Value), &c)
	}
	if err != nil || c.Session == "" || pressed.Actions[0].ID != "approve" && pressed.Actions[0].ID != "deny" {
		return fmt.Errorf("this is no decision: %w", err)
	}
	decision := pressed.Actions[0].ID
	at := b.Gateway + "/api/approvals/" + url.PathEscape(c.Session) + "/" + url.PathEscape(c.Approval)
	said := map[string]any{"decision": decision, "shown": c.Shown, "reason": pressed.User.Name + " pressed the button in Slack"}
	text := fmt.Sprintf("%s: %s by %s", c.Session, decision, pressed.User.Name)
	if err := post(ctx, at, http.Header{"Authorization": {"Bearer " + b.Token}}, said); err != nil {
		text = fmt.Sprintf("%s: not decided: %v", c.Session, err) // someone else was faster, for example
	}
	return post(ctx, pressed.Answer, nil, map[string]any{"replace_original": true, "text": text})
}

// signed reports whether a request is from Slack, and new.
func (b *bridge) signed(h http.Header, body []byte, now time.Time) bool {
	seconds, err := strconv.ParseInt(h.Get("X-Slack-Request-Timestamp"), 10, 64)
	if err != nil || now.Sub(time.Unix(seconds, 0)).Abs() > maxAge {
		return false
	}
	return hmac.Equal([]byte(h.Get("X-Slack-Signature")), []byte(slackSignature(b.Signing, seconds, body)))
}

// slackSignature signs a request as Slack does.
func slackSignature(secret string, seconds int64, body []byte) string {
	mac := hmac.New(sha256.New, []byte(secret))
	_, _ = fmt.Fprintf(mac, "v0:%d:%s", seconds, body) // it never fails
	return "v0=" + hex.EncodeToString(mac.Sum(nil))
}

// post sends JSON. Its error has what the receiver says.
func post(ctx context.Context, to string, h http.Header, value any) error {
	body, err := json.Marshal(value)
	if err != nil {
		return fmt.Errorf("encode: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, to, bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("post: %w", err)
	}
	if h != nil {
		req.Header = h
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return fmt.Errorf("post: %w", err)
	}
	defer func() { _ = res.Body.Close() }()
	if said, err := io.ReadAll(io.LimitReader(res.Body, maxBody)); err != nil || res.StatusCode/100 != 2 {
		return fmt.Errorf("%s: %s", res.Status, bytes.TrimSpace(said))
	}
	return nil
}
