package session

import (
	"slices"

	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/events/journal"
	"github.com/turnlog/turnlog/loop"
)

// Fork completes the command that opens a fork. origin is the session that the fork continues, after the entry of
// head. The fork gets the origin's transcript up to that entry (see Snapshot.Continuation) and its configuration.
// From the command's own configuration, only the model and the agent count; another agent has its own prompt and
// settings.
//
// If the entry is in the middle of a round, the fork continues that round. Input that the origin was about to answer
// is in the command, not in the transcript: see ForkInput. The fork does not inherit the origin's usage, queued input,
// lasting approvals, calls in the background or open task.
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
	c.Config.Digest, c.Config.Catalog, c.Config.Hooks, c.Config.Mutators = "", events.Catalog{}, nil, nil // the host sets these
	if asked.Model != "" {
		c.Config.Model, c.Config.ModelData, c.Config.Agent = asked.Model, asked.ModelData, c.Config.Agent.Claimed()
	}
	return c, nil
}

// ForkInput returns the input that a session is about to answer. It becomes the first input of a fork.
func ForkInput(origin *loop.State) []content.Item {
	_, waiting, _ := history(origin)
	return waiting
}

// history returns what a fork begins with: a transcript, whose last round may still be open, and the input that was
// about to be answered.
func history(origin *loop.State) (transcript, waiting []content.Item, open bool) {
	snap := project(origin, events.Hash{})
	transcript, open = snap.Continuation()
	end := len(transcript)
	for origin.Turn != nil && end > 0 && transcript[end-1].Kind == content.User {
		end--
	}
	return transcript[:end], content.Stripped(transcript[end:]), open
}
