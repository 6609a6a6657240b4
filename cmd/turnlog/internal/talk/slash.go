package talk

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/oklog/ulid/v2"

	"github.com/turnlog/turnlog/audit/render"
	"github.com/turnlog/turnlog/client"
	"github.com/turnlog/turnlog/client/report"
	"github.com/turnlog/turnlog/cmd/turnlog/internal/app"
	"github.com/turnlog/turnlog/cmd/turnlog/internal/flags"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/internal/cli"
	"github.com/turnlog/turnlog/session"
)

// slash is a command of a chat.
type slash struct {
	name, args, does string
	run              func(v *conversation, ctx context.Context, in *input, arg string) error // nil: the chat handles it
}

// slashes returns the commands of a chat.
func slashes() []slash {
	return []slash{
		{"/file", "PATH", "attaches a file to the next input", func(v *conversation, _ context.Context, in *input, path string) error { return v.addFile(in, path) }},
		{"/fork", "[ENTRY]", "continues in a fork of this session, after the last entry or an earlier one", (*conversation).forkHere},
		{"/sessions", "[NUMBER|ID]", "lists the sessions, or continues one", (*conversation).sessions},
		{"/help", "", "lists the commands", (*conversation).help},
		{"/quit", "", "ends the chat, as Ctrl-D does", nil},
	}
}

// isCommand reports whether a line looks like a command: a slash and one word. A path has another slash.
func isCommand(line string) bool {
	word, is := strings.CutPrefix(strings.Fields(line)[0], "/")
	return is && strings.HasPrefix(line, "/") && word != "" && !strings.ContainsAny(word, "/.*")
}

// perform runs a command of the chat.
func (v *conversation) perform(ctx context.Context, in *input, line string) error {
	name, arg, _ := strings.Cut(strings.TrimSpace(line), " ")
	i := slices.IndexFunc(slashes(), func(s slash) bool { return s.name == name && s.run != nil })
	if i < 0 {
		return fmt.Errorf("there is no command %s, and nothing was sent: /help lists the commands; begin the line with a space to send it", name)
	}
	return v.Interruptible(ctx, func(ctx context.Context) error { return slashes()[i].run(v, ctx, in, strings.TrimSpace(arg)) })
}

func (v *conversation) help(context.Context, *input, string) error {
	for _, s := range slashes() {
		v.Hint("%-24s%s", s.name+" "+s.args, s.does)
	}
	v.Hint("A line that begins with a space is sent as it is.")
	return nil
}

// addFile attaches a file to the next input.
func (v *conversation) addFile(in *input, path string) error {
	if len(in.files) == maxFiles {
		return fmt.Errorf("an input takes at most %d files", maxFiles)
	}
	file, err := examine(path)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	v.Hint("%s (%s, %s) is attached to the next input", path, file.mime, humanize.IBytes(uint64(file.size)))
	in.files = append(in.files, file)
	return nil
}

// forkHere continues in a fork.
func (v *conversation) forkHere(ctx context.Context, in *input, arg string) error {
	if v.session == nil {
		return errors.New("there is nothing to fork yet")
	}
	at := events.EntryRef{Session: v.id}
	if arg != "" {
		var err error
		if at.Seq, err = strconv.ParseUint(arg, 10, 64); err != nil {
			return fmt.Errorf("/fork %s: give the number of an entry; \"turnlog sessions show %s\" has them", arg, v.id)
		}
	}
	ctx, done := context.WithTimeout(ctx, v.Patience.Answer)
	defer done()
	id := content.SessionID(ulid.Make().String())
	s, err := v.client.Start(ctx, client.Options{ID: id, From: at})
	if err != nil {
		return err
	}
	v.change(ctx, in, id, s)
	v.Hint("session %s continues %s", id, s.From())
	return nil
}

// listed is how many sessions a chat lists.
const listed = 20

// sessions lists the sessions, or continues one that was listed.
func (v *conversation) sessions(ctx context.Context, in *input, arg string) error {
	if arg != "" {
		return v.resume(ctx, in, arg)
	}
	rows, err := report.Query{Sort: "age", Limit: listed}.List(ctx, v.client, v.Complain)
	if err != nil {
		return err
	}
	v.others = nil
	for _, r := range rows {
		v.others = append(v.others, r.Session)
	}
	if len(rows) == 0 {
		v.Hint("there are no sessions yet")
		return nil
	}
	return app.Table(v.Err, "NO. SESSION STATE CHANGED TITLE", rows, func(r report.Summary) []any {
		number := strconv.Itoa(slices.Index(v.others, r.Session) + 1)
		if r.Session == v.id {
			number += " (this)"
		}
		return []any{number, r.Session, r.State, humanize.RelTime(r.Changed.Std(), time.Now(), "ago", ""), r.Title}
	})
}

// resume continues another session, by its number in the list or its ID.
func (v *conversation) resume(ctx context.Context, in *input, arg string) error {
	id := content.SessionID(arg)
	if n, err := strconv.Atoi(arg); err == nil && n > 0 && n <= len(v.others) {
		id = v.others[n-1]
	}
	id, err := cli.ParseSession(string(id))
	if err != nil {
		return err
	}
	s, err := v.client.Attach(ctx, id)
	if err != nil {
		return app.NoSession(id, err)
	}
	if s.IsClosed() {
		_ = s.Close(ctx)
		return fmt.Errorf("session %s is closed: continue another session", id)
	}
	v.change(ctx, in, id, s)
	return v.recall()
}

// change continues in another session, with its own settings.
func (v *conversation) change(ctx context.Context, in *input, id content.SessionID, s *session.Session) {
	if v.session != nil {
		_ = v.session.Close(context.WithoutCancel(ctx)) // nothing is lost with it
	}
	v.id, v.session, v.answers, v.ended = id, s, nil, make(map[content.CallID]bool)
	in.start, in.seal = flags.Start{}, false
}

// recall shows the end of a session: its last input and everything after it.
func (v *conversation) recall() error {
	all := v.session.Snapshot().Transcript
	from := len(all)
	for i, it := range all {
		if it.Kind == content.User {
			from = i
		}
	}
	v.Hint("session %s", v.id)
	if err := render.Transcript(v.Err, v.Style, all[from:], nil); err != nil {
		return fmt.Errorf("show session %s: %w", v.id, err)
	}
	return nil
}

// completions returns the completions of the last word of an input.
func completions(text string) (found []string) {
	at := strings.LastIndexAny(text, " \n") + 1
	before, word := text[:at], text[at:]
	switch {
	case before == "" && strings.HasPrefix(word, "/"):
		for _, s := range slashes() {
			if strings.HasPrefix(s.name, word) {
				found = append(found, s.name)
			}
		}
	case before == "/file ":
		dir, base := filepath.Split(word)
		files, _ := os.ReadDir(cmp.Or(dir, "."))
		for _, f := range files {
			if name := f.Name(); strings.HasPrefix(name, base) && (base != "" || !strings.HasPrefix(name, ".")) {
				if f.IsDir() {
					name += "/"
				}
				found = append(found, dir+name)
			}
		}
	}
	return found
}
