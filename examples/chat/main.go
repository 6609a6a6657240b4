// Command chat is a conversation at the terminal: each line is a turn, the answer streams, and
// an empty line or the end of the input ends it.
package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log"
	"os"
	"os/signal"

	"github.com/turnlog/turnlog/agent"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/model/demo"
	"github.com/turnlog/turnlog/session"
	"github.com/turnlog/turnlog/tool"
	"github.com/turnlog/turnlog/tool/fs"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := chat(ctx, os.Stdin, os.Stdout)
	stop()
	if err != nil {
		log.Fatal(err)
	}
}

func chat(ctx context.Context, in io.Reader, out io.Writer) error {
	files, err := fs.New(".", fs.Options{}) // read-only by default
	if err != nil {
		return err
	}
	tools, err := tool.NewRegistry("files", files...)
	if err != nil {
		return err
	}
	a, err := agent.New(agent.Config{Model: demo.New(), Tools: []tool.Source{tools}})
	if err != nil {
		return err
	}
	d, err := a.Start(ctx, agent.SessionConfig{})
	if err != nil {
		return err
	}
	say := func(text string) { _, _ = io.WriteString(out, text) }
	lines := bufio.NewScanner(in)
	for say("> "); lines.Scan() && lines.Text() != ""; say("\n> ") {
		for ev, err := range d.Stream(ctx, content.UserText(lines.Text())) {
			if err != nil {
				return err
			}
			say(shown(ev))
		}
	}
	say("\n")
	if err := lines.Err(); err != nil {
		return fmt.Errorf("read a line: %w", err)
	}
	return nil
}

// shown returns the part of an event that a person sees.
func shown(ev session.StreamEvent) string {
	switch ev := ev.(type) {
	case session.TextDelta:
		return ev.Text
	case session.ToolUse:
		return fmt.Sprintf("[%s %s]\n", ev.Call.Name, ev.Call.Input)
	case session.Retry:
		return "\n[again, from the start]\n"
	case session.ReasoningDelta, session.ToolDone, session.UsageUpdate, session.MessageComplete:
	}
	return ""
}
