package talk

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"github.com/turnlog/turnlog/cmd/turnlog/internal/app"
	"github.com/turnlog/turnlog/internal/cli"
)

// Chat returns the command that talks with a session.
func Chat(a *app.App) *cobra.Command {
	var f talkFlags
	cmd := &cobra.Command{
		Use:   "chat",
		Short: "Talk with a session, turn after turn",
		Long: `Runs a turn for each line of input, in one session. /quit or the end of the input (Ctrl-D)
ends it. An interrupt cancels the turn; a second one, while the turn is ending, ends the chat.
/file PATH attaches a file to the next line, as --file does to the first one; /help lists the commands.
Lines that are pasted together are one input. A line that you type while a turn runs is the next input;
it does not answer a question that comes up later.

At a terminal, the sessions of this process are kept in $XDG_STATE_HOME/turnlog/chat, which is below
~/.local/state without that variable: --session continues them, --store names another directory, and
--store "" keeps nothing. One chat at a time uses a directory.

Where it runs, and which calls need approval, is as for "turnlog run": you are asked at a terminal;
otherwise the chat ends. A failed turn is reported, and the chat continues; if the input does not
come from a terminal, it exits with the code of its last turn.`,
		Example: `  turnlog chat
  turnlog chat --tools fs,shell --root ./site
  turnlog chat --session plan-7
  turnlog chat --store ~/.turnlog --session plan-7
  turnlog chat --server nats://127.0.0.1:4222 --session plan-7
  printf 'What is here?\nWhich file is the longest?\n' | turnlog chat`,
	}
	f.register(cmd, a)
	f.session.RegisterBusy(cmd)
	store := cmd.Flags().Lookup("store")
	store.Usage = strings.Replace(store.Usage, ephemeral, "at a terminal, turnlog/chat in the user's state directory", 1)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if a.IsIn && !f.given("store") && !f.remote.Named() {
			f.store, f.usual = chatStore(a), true
		}
		files, err := f.files.look()
		if err != nil {
			return err
		}
		return f.talk(cmd.Context(), input{files: files}, func(ctx context.Context, v *conversation, in input) error { return v.chat(ctx, in) })
	}
	return cmd
}

// chatStore returns the directory of a user's chats, which only that user can read, or "" if there can be none.
func chatStore(a *app.App) string {
	state := a.Getenv("XDG_STATE_HOME")
	if home := a.Getenv("HOME"); state == "" && home != "" {
		state = filepath.Join(home, ".local", "state")
	}
	if state == "" {
		return ""
	}
	dir := filepath.Join(state, "turnlog", "chat")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		a.Hint("this chat is not kept: %v", err)
		return ""
	}
	return dir
}

// chat runs a turn for each line. The files of the input are attached to the first.
func (v *conversation) chat(ctx context.Context, in input) error {
	if v.IsIn {
		v.Hint("/quit or Ctrl-D leaves")
		defer func() {
			if v.session != nil && (!v.local || v.store != "") {
				v.Hint("\"turnlog chat --session %s%s\" continues this chat", v.id, v.place)
			}
		}()
	}
	defer v.MarkPastes()()
	var last error
	for {
		line, err := v.readLine(ctx)
		if err != nil || line == "/quit" {
			if errors.Is(err, io.EOF) {
				err = nil
			}
			if e, failed := errors.AsType[*cli.ExitError](last); failed && err == nil && !v.IsIn {
				err = &cli.ExitError{Code: e.Code} // it was printed
			}
			return err
		}
		path, attach := strings.CutPrefix(line, "/file ")
		switch {
		case strings.TrimSpace(line) == "":
			continue
		case !utf8.ValidString(line):
			v.Complain(cli.Usage("that line is not valid UTF-8"))
			continue
		case attach:
			if err := v.addFile(&in, strings.TrimSpace(path)); err != nil {
				v.Complain(err)
			}
			continue
		case line == "/help":
			v.Hint("/file PATH  attaches a file to the next line")
			v.Hint("/quit       leaves, as Ctrl-D does")
			v.Hint("A line that begins with a space is sent as it is.")
			continue
		case isCommand(line):
			v.Complain(fmt.Errorf("there is no command %s, and nothing was sent: /help lists the commands; begin the line with a space to send it", strings.Fields(line)[0]))
			continue
		}
		in.text = line
		if last = v.print(ctx, in, "text"); fatal(last) {
			return last
		}
		if in.files = nil; last != nil {
			v.Complain(last)
		}
	}
}

// isCommand reports whether a line looks like a command: a slash and a word, which no path is.
func isCommand(line string) bool {
	word, slash := strings.CutPrefix(strings.Fields(line)[0], "/")
	return slash && strings.HasPrefix(line, "/") && word != "" && !strings.ContainsAny(word, "/.*")
}

// addFile attaches a file to the next line.
func (v *conversation) addFile(in *input, path string) error {
	if len(in.files) == maxFiles {
		return fmt.Errorf("an input takes %d files at most", maxFiles)
	}
	file, err := examine(path)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	v.Hint("%s (%s, %s) comes with the next line", path, file.mime, humanize.IBytes(uint64(file.size)))
	in.files = append(in.files, file)
	return nil
}

// fatal reports whether the chat cannot continue after a turn's error. While a turn waits
// for an approval, further input would wait, too.
func fatal(err error) bool {
	e, verdict := errors.AsType[*cli.ExitError](err)
	return err != nil && (!verdict || e.Code == cli.CodeApproval)
}

// readLine prompts for a line and waits for it.
func (v *conversation) readLine(ctx context.Context) (string, error) {
	for {
		if len(v.ahead) > 0 {
			line := v.ahead[0]
			v.ahead = v.ahead[1:]
			v.Hint("> %s", line.Text)
			return line.Text, line.Err
		}
		if v.IsIn {
			_, _ = io.WriteString(v.Err, "> ")
		}
		select {
		case t := <-v.lines():
			if t.Err != nil && v.IsIn {
				_, _ = io.WriteString(v.Err, "\n")
			}
			if t.Cut {
				v.Complain(errors.New("the terminal may have cut off that line, and nothing was sent: break it up before 4,095 characters, or attach a file with /file"))
				continue
			}
			return t.Text, t.Err
		case s := <-v.Signals:
			if s != os.Interrupt {
				return "", &cli.Interrupted{Signal: s}
			}
			_, _ = io.WriteString(v.Err, "\n")
			v.Hint("nothing to cancel; /quit or Ctrl-D leaves")
		case <-ctx.Done():
			return "", context.Cause(ctx)
		}
	}
}
