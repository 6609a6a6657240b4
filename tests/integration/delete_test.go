package integration

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/turnlog/turnlog/client"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/jetstream/admin"
)

// via forwards connections to the server and calls each with every message that a client sends, before it is forwarded.
func (d *deployment) via(each func(subject string, message []byte)) (addr string) {
	d.t.Helper()
	var lc net.ListenConfig
	l, err := lc.Listen(d.t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		d.t.Fatal(err)
	}
	d.t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			from, err := l.Accept()
			if err != nil {
				return
			}
			to, err := (&net.Dialer{}).DialContext(d.t.Context(), "tcp", d.addr)
			if err != nil {
				_ = from.Close()
				continue
			}
			go func() {
				defer func() { _ = to.Close() }()
				_ = requests(from, to, each)
			}()
			go func() {
				defer func() { _ = from.Close() }()
				_, _ = io.Copy(from, to)
			}()
		}
	}()
	return l.Addr().String()
}

// requests copies what a client of NATS sends, and calls each with every message before it is forwarded.
func requests(from io.Reader, to io.Writer, each func(subject string, message []byte)) error {
	in := bufio.NewReader(from)
	for {
		line, err := in.ReadBytes('\n')
		if err != nil {
			return err
		}
		words := strings.Fields(string(line))
		if len(words) > 2 && strings.HasSuffix(words[0], "PUB") {
			size, err := strconv.Atoi(words[len(words)-1])
			if err != nil {
				return err
			}
			body := make([]byte, size+len("\r\n"))
			if _, err := io.ReadFull(in, body); err != nil {
				return err
			}
			each(words[1], body)
			line = append(line, body...)
		}
		if _, err := to.Write(line); err != nil {
			return err
		}
	}
}

// changes reports whether a message changes something. The subject of a purge that only shows whether it is allowed has no messages.
func changes(subject string, message []byte) bool {
	switch {
	case strings.Contains(subject, ".PURGE."):
		return !bytes.Contains(message, []byte(".nothing"))
	case strings.HasPrefix(subject, "$JS.API."):
		return strings.Contains(subject, ".MSG.DELETE.")
	}
	return !strings.HasPrefix(subject, "_INBOX.")
}

// between reports whether a message changes something that the deletion of one session cannot show: all but the changes of
// a session between those of its inbox, which are the first, and of its journal, which is the last.
func between(subject string, message []byte) bool {
	_, stream, purges := strings.Cut(subject, ".PURGE.")
	return changes(subject, message) && (!purges || slices.Contains([]string{"TURNLOG_INBOX", "TURNLOG_JOURNAL", "OBJ_TURNLOG_BLOBS"}, stream))
}

// TestADeletionThatIsKilledIsCompleted kills "turnlog sessions rm" of a session with a fork, and with a fork of that,
// before each of its changes. If the fork is deleted, too, the changes of each session are those of a session whose forks
// are kept, so only the first of them and the last are not made. One more command completes all those deletions, and
// forks that are kept lose nothing.
func TestADeletionThatIsKilledIsCompleted(t *testing.T) {
	t.Parallel()
	for flag, counts := range map[string]func(string, []byte) bool{"--with-forks": between, "--keep-forks": changes} {
		t.Run(flag, func(t *testing.T) {
			t.Parallel()
			d := deploy(t)
			d.node("n1")
			remove := []string{"sessions", "rm", flag, "--grace", "1m", "--server"}
			var families [][]content.SessionID
			var files []content.Part
			for done := false; !done; {
				n := int64(len(families) + 1)
				origin := content.SessionID(fmt.Sprintf("s%d", n))
				family := []content.SessionID{origin, origin + "-fork", origin + "-fork-fork"}
				if flag == "--with-forks" {
					family = family[:2] // each has the same changes
				}
				families, files = append(families, family), append(files, d.family(family))
				done = d.killedAt(n, counts, append(remove, "nats://{}", string(origin)))
			}
			remove = append(remove, "nats://"+d.addr)
			for _, family := range families {
				remove = append(remove, string(family[0]))
			}
			if out, errs, code := d.run("turnlog", remove...); code != 0 {
				t.Fatalf("after the kills, it exits with %d\n%s%s", code, out, errs)
			}
			if _, err := admin.Of(d.cell).Collect(t.Context(), 0, false); err != nil {
				t.Fatal(err)
			}
			for i, family := range families {
				d.deleted(family, flag, files[i], fmt.Sprint("change ", i+1))
			}
			t.Logf("%d changes", len(families)-1)
		})
	}
}

// killedAt runs turnlog and kills it before the nth of the messages that count. It reports whether the program ended
// normally before that.
func (d *deployment) killedAt(n int64, counts func(subject string, message []byte) bool, args []string) (ended bool) {
	d.t.Helper()
	var cmd *exec.Cmd
	killed := make(chan struct{})
	var seen atomic.Int64
	addr := d.via(func(subject string, message []byte) {
		if counts(subject, message) && seen.Add(1) == n {
			close(killed)
			_ = cmd.Process.Signal(syscall.SIGKILL)
			<-d.t.Context().Done()
		}
	})
	for i := range args {
		args[i] = strings.ReplaceAll(args[i], "{}", addr)
	}
	cmd = exec.CommandContext(d.t.Context(), filepath.Join(binaries, "turnlog"), args...)
	cmd.Env = append(os.Environ(), d.env...)
	out, err := cmd.CombinedOutput()
	if err == nil {
		return true
	}
	select {
	case <-killed:
	default:
		d.t.Fatalf("%v\n%s", err, out)
	}
	return false
}

// family starts a session with a file, a fork of it, a fork of that, and so on. It returns the file.
func (d *deployment) family(all []content.SessionID) content.Part {
	d.t.Helper()
	ctx, cancel := context.WithTimeout(d.t.Context(), patience)
	defer cancel()
	c, err := client.Open(d.nc, "")
	if err != nil {
		d.t.Fatal(err)
	}
	file, err := c.StoreFile(ctx, "map.txt", "text/plain", strings.NewReader("North is up from "+string(all[0])))
	if err != nil {
		d.t.Fatal(err)
	}
	o := client.Options{Config: events.Config{Model: "scripted:test", ModelData: []byte(`{replies: [{text: Yes.}], repeat: true}`)}}
	for _, o.ID = range all {
		s, err := c.Start(ctx, o)
		if err != nil {
			d.t.Fatal(err)
		}
		input := content.NewItem(content.User, content.TextPart("Look"))
		if o.From.Session == "" {
			input.Parts = append(input.Parts, file)
		}
		if _, err := s.Run(ctx, input); err != nil {
			d.t.Fatal(err)
		}
		o = client.Options{From: events.EntryRef{Session: s.ID()}}
		_ = s.Close(ctx)
	}
	return file
}

// deleted checks that the origin of a family is deleted completely, and its forks as a flag of "turnlog sessions rm" says.
func (d *deployment) deleted(all []content.SessionID, flag string, file content.Part, when string) {
	d.t.Helper()
	ctx, cancel := context.WithTimeout(d.t.Context(), patience)
	defer cancel()
	c, err := client.Open(d.nc, "")
	if err != nil {
		d.t.Fatal(err)
	}
	for i, id := range all {
		state, _, err := c.Read(ctx, id)
		if err != nil {
			d.t.Fatalf("%s: %v", when, err)
		}
		kept := flag == "--keep-forks" && i > 0
		if kept == (state.Deleted != nil) {
			d.t.Errorf("%s: %s is deleted: %v", when, id, state.Deleted)
		}
		entries := 0
		for _, err := range d.cell.Journal().Read(ctx, id, 0) {
			if err != nil {
				d.t.Fatal(err)
			}
			entries++
		}
		if !kept && entries != 1 {
			d.t.Errorf("%s: %s has %d entries", when, id, entries)
		}
		if !kept {
			continue
		}
		s, err := c.Attach(ctx, id)
		if err != nil {
			d.t.Fatal(err)
		}
		if r, err := s.RunText(ctx, "And now?"); err != nil || r.Response != "Yes." {
			d.t.Errorf("%s: %s says %v, %v", when, id, r, err)
		}
		_ = s.Close(ctx)
	}
	blob, _ := content.BlobID(file.Media.URI)
	if _, ok, err := d.cell.Blobs().Get(ctx, blob); err != nil || ok != (flag == "--keep-forks") {
		d.t.Errorf("%s: the file is there: %v, %v", when, ok, err)
	}
}

// TestANodeThatIsKilledLeavesADeletionToComplete kills the node that a keeper with a name asks for tombstones: before it
// writes the first one, and before it answers. With another node, the same command completes the deletion.
func TestANodeThatIsKilledLeavesADeletionToComplete(t *testing.T) {
	t.Parallel()
	for name, of := range map[string][2]string{"before the tombstone": {"turnlog.journal.", "session_deleted"}, "before the answer": {"_USER_kim.", ""}} {
		prefix, part := of[0], of[1]
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d, printed, at := deployRoles(t, "driver", "client", "keeper:kim")
			url := regexp.MustCompile(`nats://(127\.0\.0\.1:\d+)`).FindStringSubmatch(d.server.output())
			d.addr = url[1]
			var victim *process
			var armed atomic.Bool
			var kill sync.Once
			addr := d.via(func(subject string, message []byte) {
				if armed.Load() && strings.HasPrefix(subject, prefix) && bytes.Contains(message, []byte(part)) {
					kill.Do(func() {
						victim.signal(syscall.SIGKILL)
						<-victim.done
					})
					<-t.Context().Done()
				}
			})
			node := printed("driver")
			victim = d.start(node[0], append(node[1:], "--server", "nats://"+addr)...)
			as := func(role string, args ...string) (string, int) {
				t.Helper()
				out, errs, code := d.run("turnlog", append(args, at(role)...)...)
				return out + errs, code
			}
			for _, args := range [][]string{
				{"run", "--session", "s", "--model", d.script("{replies: [{text: Yes.}], repeat: true}"), "hello"},
				{"fork", "s", "--session", "kept", "--input", "more"},
			} {
				if out, code := as("client", args...); code != 0 {
					t.Fatalf("%v = %d\n%s", args, code, out)
				}
			}
			armed.Store(true)
			rm := []string{"sessions", "rm", "s", "--keep-forks", "--keep-blobs"}
			if out, code := as("keeper", rm...); code != 1 || !strings.Contains(out, "run the command again") {
				t.Errorf("without its node, it exits with %d\n%s", code, out)
			}
			<-victim.done
			d.start(node[0], node[1:]...)
			d.eventually("the deletion is complete", func(context.Context) bool {
				out, code := as("keeper", rm...)
				return code == 0 && strings.Contains(out, "s was deleted")
			})
			if out, code := as("client", "send", "kept", "--wait", "And now?"); code != 0 || !strings.Contains(out, "Yes.") {
				t.Errorf("the fork that was kept: %d\n%s", code, out)
			}
		})
	}
}
