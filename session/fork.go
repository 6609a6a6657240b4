package session

import (
	"slices"

	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/events/journal"
	"github.com/turnlog/turnlog/loop"
)

// Fork completes the command that opens a fork: origin is the session that it continues, after the entry that head is
// about. The fork gets the origin's transcript up to there, see Snapshot.Continuation, and its configuration; of the
// command's own configuration, only the model and the agent count. Another agent has its own prompt and settings.
//
// In the middle of a round, the fork continues that round. Input that the origin was about to answer is not in the
// transcript: the command has it, see ForkInput. What the origin used of its limits, its queued input, tools that were
// allowed for always, calls in the background and an open task stay with the origin.
func Fork(c commands.OpenSession, origin *loop.State, head journal.Head) (commands.OpenSession, error) {
	at, _ := c.Origin()
	switch {
	case origin.Deleted != nil:
		return c, commands.Refuse(commands.ReasonDeleted, "session %s %s", at.Session, origin.Deleted)
	case head.Seq != at.Seq || !origin.Opened:
		return c, commands.Refuse(commands.ReasonNoSession, "%s is no entry at which there is a session to continue", at.Place())
	case head.Hash != at.Hash:
		return c, commands.Refuse(commands.ReasonBadTranscript, "entry %s has the hash %s, not %s", at.Place(), head.Hash, at.Hash)
	}
	c.Transcript, _, c.Resume = history(origin)
	asked := c.Config
	if asked.Agent != nil {
		c.Transcript = slices.DeleteFunc(c.Transcript, func(it content.Item) bool { return it.Kind == content.System })
		return c, nil
	}
	c.Config = origin.Config
	c.Config.Digest, c.Config.Catalog, c.Config.Hooks, c.Config.Mutators = "", events.Catalog{}, nil, nil // the host's
	if asked.Model != "" {
		c.Config.Model, c.Config.ModelData, c.Config.Agent = asked.Model, asked.ModelData, c.Config.Agent.Claimed()
	}
	return c, nil
}

// ForkInput returns the input that a session is about to answer: the first input of a fork.
func ForkInput(origin *loop.State) []content.Item {
	_, waiting, _ := history(origin)
	return waiting
}

// history returns what a fork begins with: a transcript, which may end in a round that goes on, and the input after it
// that was about to be answered.
func history(origin *loop.State) (transcript, waiting []content.Item, open bool) {
	snap := project(origin, events.Hash{})
	transcript, open = snap.Continuation()
	end := len(transcript)
	for origin.Turn != nil && end > 0 && transcript[end-1].Kind == content.User {
		end--
	}
	return transcript[:end], content.Stripped(transcript[end:]), open
}
