package talk

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/turnlog/turnlog/cmd/turnlog/internal/app"
	"github.com/turnlog/turnlog/internal/cli"
)

// Chat returns the command that talks with a session.
func Chat(a *app.App) *cobra.Command {
	var f talkFlags
	cmd := &cobra.Command{
		Use:   "chat",
		Short: "Chat with an agent, one turn for each input",
		Long: `Runs a turn for each input, in one session. /quit or the end of the input (Ctrl-D) ends the chat. An
interrupt (Ctrl-C) cancels the turn; a second one, while the turn is ending, ends the chat.

/file PATH attaches a file to the next input, as --file does to the first one. /sessions lists the sessions;
/sessions NUMBER, or an ID, continues one. /fork continues in a fork of the session, /fork ENTRY in a fork from
an earlier entry. /help lists the commands.

At a terminal, Enter sends, and Alt-Enter or Ctrl-J begins a new line. The arrow keys recall earlier inputs, Tab
completes commands and files, and Markdown is rendered. All output stays in the scrollback. With TERM=dumb, or
without a terminal, each line is an input, and lines that are pasted together are one input. Text that you send
while a turn runs becomes the next input; it does not answer a question that is asked later. If you make the
window narrower during a reply, the scrollback of many terminals gets a second copy of the reply's last lines:
the terminal wraps them again, and the chat cannot know how many rows they take.

At a terminal, the sessions of this process are stored in $XDG_STATE_HOME/turnlog/chat, or
~/.local/state/turnlog/chat if that variable is not set. --session continues one, --store names another
directory, and --store "" stores nothing. Only one chat at a time can use a directory. Your inputs are stored
in turnlog/history of the same state directory, except with --store "" or --seal.

The chat runs in this process or on a deployment, and needs approval for the same calls, as "turnlog run" does.
At a terminal, it asks you; otherwise a call that needs approval ends the chat. After a failed turn the chat
continues. If the input does not come from a terminal, the exit code is that of the last turn.`,
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
		return f.talk(cmd.Context(), input{files: files}, func(ctx context.Context, v *conversation, in input) error {
			end, err := f.draw(ctx)
			if err != nil {
				return err
			}
			defer end()
			return v.chat(ctx, in)
		})
	}
	return cmd
}

// chatStore returns the directory of a user's chats, which only that user can read. It returns "" if there is none.
func chatStore(a *app.App) string {
	state := a.StateDir()
	if state == "" {
		return ""
	}
	dir := filepath.Join(state, "chat")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		a.Hint("this chat is not stored: %v", err)
		return ""
	}
	return dir
}

// chat runs a turn for each line. The files of the input are attached to the first.
func (v *conversation) chat(ctx context.Context, in input) error {
	if v.IsIn {
		v.Hint("/quit or Ctrl-D exits")
		defer func() {
			if v.session != nil && (!v.local || v.store != "") {
				v.Hint("\"turnlog chat --session %s%s\" continues this chat", v.id, v.place)
			}
		}()
	}
	defer v.MarkPastes()()
	if v.session != nil && v.Ready != nil {
		if err := v.recall(); err != nil {
			return err
		}
	}
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
		switch {
		case strings.TrimSpace(line) == "":
			continue
		case !utf8.ValidString(line):
			v.Complain(cli.Usage("that line is not valid UTF-8"))
			continue
		case isCommand(line):
			if err := v.perform(ctx, &in, line); err != nil {
				v.Complain(err)
			}
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

// fatal reports whether the chat cannot continue after a turn's error. While a turn waits
// for an approval, further input would wait, too.
func fatal(err error) bool {
	e, verdict := errors.AsType[*cli.ExitError](err)
	return err != nil && (!verdict || e.Code == cli.CodeApproval)
}

// readLine prompts for a line and waits until a line is input.
func (v *conversation) readLine(ctx context.Context) (string, error) {
	for {
		line, err := v.nextLine(ctx)
		switch {
		case err != nil:
			return "", err
		case line.Answer || line.Late:
			v.Complain(errLate)
		case line.Cut:
			v.Complain(errors.New("the terminal may have cut off that line, and nothing was sent: break it up before 4,095 characters, or attach a file with /file"))
		default:
			return line.Text, line.Err
		}
	}
}

func (v *conversation) nextLine(ctx context.Context) (app.Line, error) {
	if len(v.ahead) > 0 {
		line := v.ahead[0]
		v.ahead = v.ahead[1:]
		if v.Ready == nil {
			v.Hint("> %s", line.Text)
		}
		return line, nil
	}
	for {
		v.Await(true)
		select {
		case line := <-v.lines():
			v.Await(false)
			if line.Err != nil && v.IsIn && v.Ready == nil {
				_, _ = io.WriteString(v.Err, "\n")
			}
			return line, nil
		case s := <-v.Signals:
			if s != os.Interrupt {
				return app.Line{}, &cli.Interrupted{Signal: s}
			}
			if v.Ready == nil {
				_, _ = io.WriteString(v.Err, "\n")
			}
			v.Hint("nothing to cancel; /quit or Ctrl-D exits")
		case <-ctx.Done():
			return app.Line{}, context.Cause(ctx)
		}
	}
}
