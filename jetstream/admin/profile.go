package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/turnlog/turnlog/jetstream/internal/api"
)

// Profile says how much a cell must survive. A cell may be stronger than its profile, but not weaker.
type Profile string

// The profiles. All of them keep everything on disk. docs/operations.md says what an acknowledgment
// guarantees in each.
const (
	ProfileDev      Profile = "dev"      // one copy, synced to disk periodically
	ProfileStandard Profile = "standard" // three copies, synced to disk periodically
	ProfileAudit    Profile = "audit"    // three copies, synced to disk before a write is acknowledged
)

// Profiles returns the profiles, weakest first.
func Profiles() []Profile { return []Profile{ProfileDev, ProfileStandard, ProfileAudit} }

// Replicas returns the minimum number of copies.
func (p Profile) Replicas() int {
	if p == ProfileDev || p == "" {
		return 1
	}
	return 3
}

// Weaker returns the settings that are weaker than the profile requires, for the streams that could be
// described.
func (i Inspection) Weaker(p Profile) []Difference {
	var out []Difference
	for _, s := range i.Streams {
		if s.Err != nil || p == "" {
			continue
		}
		if s.Memory {
			out = append(out, Difference{Object: s.Stream, Setting: "storage", Have: "memory", Want: "file"})
		}
		if want := p.Replicas(); s.Replicas < want {
			out = append(out, Difference{
				Object: s.Stream, Setting: "num_replicas", Have: strconv.Itoa(s.Replicas), Want: strconv.Itoa(want),
			})
		}
	}
	return out
}

// Servers returns the servers with a copy of a stream, sorted.
func (i Inspection) Servers() []string {
	var out []string
	for _, s := range i.Streams {
		out = append(out, s.Servers...)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// ServerSync says when a server syncs to disk. It is a setting of the server, not of a stream, and ordinary
// clients cannot see it: the server shows it on its monitoring port and to its system account.
type ServerSync struct {
	Server   string        `json:"server"`
	Always   bool          `json:"always"`   // before a write is acknowledged
	Interval time.Duration `json:"interval"` // otherwise, how often
}

// String formats the setting as in the server's configuration.
func (s ServerSync) String() string {
	if s.Always {
		return "always"
	}
	return s.Interval.String()
}

// WeakSync compares the sync settings of servers with what the profile requires. It returns the servers
// that sync too rarely, and those whose setting is unknown.
func (p Profile) WeakSync(servers []string, seen []ServerSync) (lazy []Difference, unseen []string) {
	if p != ProfileAudit {
		return nil, nil
	}
	for _, name := range servers {
		i := slices.IndexFunc(seen, func(s ServerSync) bool { return s.Server == name })
		switch {
		case i < 0:
			unseen = append(unseen, name)
		case !seen[i].Always:
			lazy = append(lazy, Difference{Object: serverObject + name, Setting: settingSync, Have: seen[i].String(), Want: "always"})
		}
	}
	return lazy, unseen
}

const (
	serverObject = "server " // before the name of a server in a Difference
	settingSync  = "sync_interval"

	monitorTimeout = 5 * time.Second
	monitorBytes   = 1 << 20 // limit for the page of a server that is not a NATS server
)

// errNoAddress does not repeat the address, which may contain a password.
var errNoAddress = errors.New("not an address such as http://127.0.0.1:8222")

// CheckMonitor returns an error if monitor cannot be the address of a monitoring port.
func CheckMonitor(monitor string) error {
	_, err := monitorURL(monitor)
	return err
}

func monitorURL(monitor string) (*url.URL, error) {
	u, err := url.Parse(monitor)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, fmt.Errorf("monitoring port: %w", errNoAddress)
	}
	return u, nil
}

// ReadSync reads the sync setting of a server from its monitoring port, such as
// http://127.0.0.1:8222.
func ReadSync(ctx context.Context, monitor string) (ServerSync, error) {
	var varz struct {
		Name      string `json:"server_name"`
		JetStream struct {
			Config *struct {
				Interval time.Duration `json:"sync_interval"`
				Always   bool          `json:"sync_always"`
			} `json:"config"`
		} `json:"jetstream"`
	}
	err := readPage(ctx, monitor, "varz", func(status int, page *json.Decoder) error {
		if status != http.StatusOK {
			return fmt.Errorf("it answers %d %s", status, http.StatusText(status))
		}
		if err := page.Decode(&varz); err != nil {
			return fmt.Errorf("no description of a server: %w", err)
		}
		if varz.Name == "" || varz.JetStream.Config == nil {
			return fmt.Errorf("%w: server %q does not report it", api.ErrNoJetStream, varz.Name)
		}
		return nil
	})
	if err != nil {
		return ServerSync{}, err
	}
	return ServerSync{Server: varz.Name, Always: varz.JetStream.Config.Always, Interval: varz.JetStream.Config.Interval}, nil
}

// StreamTrouble is what a server reports about one of its streams.
type StreamTrouble struct {
	Stream string `json:"stream"`
	What   string `json:"error"`
}

// ReadHealth reads from a server's monitoring port what keeps its streams from working. For example, a
// stream takes no writes after its disk was full. A server of a cluster reports nothing about streams with
// one copy.
func ReadHealth(ctx context.Context, monitor string) ([]StreamTrouble, error) {
	var health struct {
		Errors []StreamTrouble `json:"errors"`
	}
	err := readPage(ctx, monitor, "healthz?details=true", func(_ int, page *json.Decoder) error { return page.Decode(&health) })
	return health.Errors, err
}

// readPage reads a page of a monitoring port.
func readPage(ctx context.Context, monitor, page string, read func(status int, page *json.Decoder) error) error {
	u, err := monitorURL(monitor)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, monitorTimeout)
	defer cancel()
	name, query, _ := strings.Cut(page, "?")
	u = u.JoinPath(name)
	u.RawQuery = query
	err = func() error {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), http.NoBody)
		if err != nil {
			return err //nolint:wrapcheck // the address is added below
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return err //nolint:wrapcheck // likewise
		}
		defer func() { _ = resp.Body.Close() }() // it was only read
		return read(resp.StatusCode, json.NewDecoder(io.LimitReader(resp.Body, monitorBytes)))
	}()
	if err != nil {
		return fmt.Errorf("monitoring port %s: %w", u.Redacted(), err)
	}
	return nil
}
