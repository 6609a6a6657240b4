// Command slack lets people approve calls with the buttons of a Slack message (bridge.go): a webhook carries the question, and
// the gateway takes the decision. Here a stand-in for Slack shows the messages and presses a button, and a deployment in
// this process asks (deployment.go).
//
// With the argument "serve" it is only the bridge, for the Slack app and the deployment that the environment names:
//
//	LISTEN                 where to serve /hooks, for the webhook, and /actions, for the interactivity of the Slack app
//	HOOK_SECRET            the secret of the webhook, whose endpoint has details: true
//	SLACK_WEBHOOK          the URL of an incoming webhook of the Slack app
//	SLACK_SIGNING_SECRET   its signing secret
//	GATEWAY                the URL of a gateway
//	TURNLOG_GATEWAY_TOKEN  the token of an approver
package main

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], log.New(os.Stdout, "", 0))
	stop()
	if err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, args []string, out *log.Logger) error {
	if len(args) == 1 && args[0] == "serve" {
		b := &bridge{
			Hook: os.Getenv("HOOK_SECRET"), Channel: os.Getenv("SLACK_WEBHOOK"), Signing: os.Getenv("SLACK_SIGNING_SECRET"),
			Gateway: os.Getenv("GATEWAY"), Token: os.Getenv("TURNLOG_GATEWAY_TOKEN"),
		}
		at, err := serve(ctx, os.Getenv("LISTEN"), b.handler())
		if err != nil {
			return err
		}
		out.Println("serving at", at)
		<-ctx.Done()
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	b := &bridge{
		Hook: "whsec_" + base64.StdEncoding.EncodeToString(make([]byte, 32)), Signing: "the signing secret", Token: "the-token-of-the-bridge",
	}
	ends, err := serve(ctx, "127.0.0.1:0", b.handler())
	if err != nil {
		return err
	}
	answered := make(chan struct{})
	slack, err := serve(ctx, "127.0.0.1:0", &standIn{out: out, bridge: b, actions: ends + "/actions", answered: answered})
	if err != nil {
		return err
	}
	b.Channel = slack + "/channel"
	return deployed(ctx, b, ends+"/hooks", answered, out)
}

// serve serves until ctx ends, and returns where.
func serve(ctx context.Context, address string, h http.Handler) (string, error) {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", address)
	if err != nil {
		return "", fmt.Errorf("serve: %w", err)
	}
	s := &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second}
	context.AfterFunc(ctx, func() { _ = s.Close() })
	go func() { _ = s.Serve(l) }() // until Close
	return "http://" + l.Addr().String(), nil
}

// standIn is Slack: it shows what is posted to the channel, and a person presses the first button.
type standIn struct {
	out      *log.Logger
	bridge   *bridge
	actions  string
	answered chan<- struct{} // closed when the bridge has shown what came of the button, and has answered
}

func (s *standIn) ServeHTTP(_ http.ResponseWriter, r *http.Request) {
	var message struct {
		Text   string `json:"text"`
		Blocks []struct {
			Elements []struct {
				Action string `json:"action_id"`
				Value  string `json:"value"`
				Text   struct {
					Text string `json:"text"`
				} `json:"text"`
			} `json:"elements"`
		} `json:"blocks"`
	}
	if err := json.NewDecoder(io.LimitReader(r.Body, maxBody)).Decode(&message); err != nil {
		s.out.Println(err)
		return
	}
	s.out.Println("slack shows:", message.Text)
	for _, block := range message.Blocks {
		for _, button := range block.Elements {
			s.out.Printf("  [%s]\n", button.Text.Text)
		}
		if len(block.Elements) > 0 {
			ctx, first, to := context.WithoutCancel(r.Context()), block.Elements[0], "http://"+r.Host
			go func() { // Slack sends it when a person presses the button
				s.out.Printf("ada presses [%s]\n", first.Text.Text)
				if err := s.press(ctx, first.Action, first.Value, to); err != nil {
					s.out.Println(err)
					return
				}
				close(s.answered)
			}()
		}
	}
}

// press sends what Slack sends when ada presses a button.
func (s *standIn) press(ctx context.Context, action, value, answerTo string) error {
	payload, err := json.Marshal(map[string]any{
		"user": map[string]string{"username": "ada"}, "response_url": answerTo + "/answer",
		"actions": []map[string]string{{"action_id": action, "value": value}},
	})
	if err != nil {
		return fmt.Errorf("encode action: %w", err)
	}
	body, now := url.Values{"payload": {string(payload)}}.Encode(), time.Now().Unix()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.actions, strings.NewReader(body))
	if err != nil {
		return fmt.Errorf("press: %w", err)
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	req.Header.Set("X-Slack-Request-Timestamp", strconv.FormatInt(now, 10))
	req.Header.Set("X-Slack-Signature", slackSignature(s.bridge.Signing, now, []byte(body)))
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return fmt.Errorf("press: %w", err)
	}
	if res.StatusCode != http.StatusOK {
		err = fmt.Errorf("the bridge answered %s", res.Status)
	}
	_ = res.Body.Close()
	return err
}
