// Command compaction keeps a transcript small: older turns are summarized before the model is
// called, while the journal keeps everything.
package main

import (
	"context"
	"log"
	"os"

	"github.com/turnlog/turnlog/agent"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/events/journal"
	"github.com/turnlog/turnlog/extension"
	"github.com/turnlog/turnlog/model/scripted"
	"github.com/turnlog/turnlog/policy/compact"
)

const (
	talker     = "replies: [{text: 'You told me about {{.Prompt}}.'}]\nrepeat: true\n"
	summariser = "replies: [{text: The user named several rivers.}]\n"
)

func main() {
	if err := run(context.Background(), log.New(os.Stdout, "", 0)); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, out *log.Logger) error {
	talks, err := scripted.Parse("talker", []byte(talker))
	if err != nil {
		return err
	}
	writes, err := scripted.Parse("summariser", []byte(summariser)) // a smaller model is enough
	if err != nil {
		return err
	}
	c, err := compact.New(compact.Config{
		Trigger: compact.Trigger{Items: 8, Window: 200_000},
		Strategy: compact.Pipeline{Steps: []compact.Strategy{
			compact.DropReasoning{},
			compact.DropFailedResults{},
			compact.Summarise{Model: writes, Keep: compact.KeepRecent{Turns: 2}, MaxTokens: 25},
		}},
	})
	if err != nil {
		return err
	}
	kept := journal.NewMemory()
	a, err := agent.New(agent.Config{
		Model: talks, SystemPrompt: "You like rivers.", Journal: kept, Compaction: c,
		Observers: []extension.Observer{watcher{out}},
	})
	if err != nil {
		return err
	}
	d, err := a.Start(ctx, agent.SessionConfig{ID: "rivers"})
	if err != nil {
		return err
	}
	for _, river := range []string{"the Amur", "the Congo", "the Danube", "the Loire", "the Volga"} {
		if _, err := d.RunText(ctx, river); err != nil {
			return err
		}
	}
	out.Println("\nThe model is shown:")
	for _, it := range d.Snapshot().Transcript {
		out.Printf("  %s: %q\n", it.Kind, it.Text())
	}
	out.Println("\nThe journal has:")
	for r, err := range kept.Read(ctx, "rivers", 0) {
		if err != nil {
			return err
		}
		for _, ev := range r.Entry.Events {
			if in, ok := ev.(events.InputAccepted); ok {
				out.Printf("  %s: %q\n", in.Turn, in.Items[0].Text())
			}
		}
	}
	return nil
}

// watcher prints compactions.
type watcher struct{ out *log.Logger }

// HandleEvent prints the result of a compaction.
func (w watcher) HandleEvent(o extension.Observed) {
	if m, ok := o.Event.(events.MutationFinished); ok && m.Dirty {
		w.out.Printf("%s before %s: %d tokens became %d (%s)\n", m.Mutator, m.Turn, m.OldTokens, m.NewTokens, m.Metadata.Text(compact.MetaReason))
	}
}
