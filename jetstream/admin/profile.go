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
	"time"

	"github.com/turnlog/turnlog/jetstream/internal/api"
)

// Profile names how much a cell must survive. A cell may be stronger than its
// profile, never weaker.
type Profile string

// The profiles. All of them keep everything on disk; what an acknowledgement means
// is said in docs/operations.md.
const (
	ProfileDev      Profile = "dev"      // one copy, synced to disk now and then
	ProfileStandard Profile = "standard" // three copies, synced to disk now and then
	ProfileAudit    Profile = "audit"    // three copies, synced to disk before they are acknowledged
)

// Profiles lists the profiles, the weakest first.
func Profiles() []Profile { return []Profile{ProfileDev, ProfileStandard, ProfileAudit} }

// Replicas is the least number of copies.
func (p Profile) Replicas() int {
	if p == ProfileDev || p == "" {
		return 1
	}
	return 3
}

// Syncs reports whether a write has to be on disk before it is acknowledged.
func (p Profile) Syncs() bool { return p == ProfileAudit }

// Weaker lists what of the streams is weaker than the profile asks for, as far as
// the streams could be described.
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

// Servers lists the servers that keep a copy of a stream, sorted.
func (i Inspection) Servers() []string {
	var out []string
	for _, s := range i.Streams {
		out = append(out, s.Servers...)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// ServerSync is when a server syncs what it stores to its disk. It is a setting of
// the server and not of a stream, and no client of an ordinary account can see it:
// the server tells it on its monitoring port, and to its system account.
type ServerSync struct {
	Server   string        `json:"server"`
	Always   bool          `json:"always"`   // before a write is acknowledged
	Interval time.Duration `json:"interval"` // else so often
}

// String renders the setting as the server's configuration has it.
func (s ServerSync) String() string {
	if s.Always {
		return "always"
	}
	return s.Interval.String()
}

// WeakSync compares what servers were seen to do with what a profile asks of those
// that keep copies. Unseen are those of which nothing is known.
func (p Profile) WeakSync(servers []string, seen []ServerSync) (lazy []Difference, unseen []string) {
	if !p.Syncs() {
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
	serverObject = "server " // before the name of a server where else a stream is named
	settingSync  = "sync_interval"

	monitorTimeout = 5 * time.Second
	monitorBytes   = 1 << 20 // a page of a server that is not one is not read to its end
)

// errNoAddress says that something is not where a monitoring port could be. It does not
// repeat what it is, which may have a password.
var errNoAddress = errors.New("no address such as http://127.0.0.1:8222")

// CheckMonitor returns an error for what cannot be the address of a monitoring port.
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

// ReadSync asks a server's monitoring port, such as http://127.0.0.1:8222, when that
// server syncs.
func ReadSync(ctx context.Context, monitor string) (ServerSync, error) {
	u, err := monitorURL(monitor)
	if err != nil {
		return ServerSync{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, monitorTimeout)
	defer cancel()
	s, err := readSync(ctx, u.JoinPath("varz").String())
	if err != nil {
		return s, fmt.Errorf("monitoring port %s: %w", u.Redacted(), err)
	}
	return s, nil
}

func readSync(ctx context.Context, page string) (ServerSync, error) {
	var s ServerSync
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, page, http.NoBody)
	if err != nil {
		return s, err //nolint:wrapcheck // ReadSync names the address
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return s, err //nolint:wrapcheck // likewise
	}
	defer func() { _ = resp.Body.Close() }() // it was only read
	if resp.StatusCode != http.StatusOK {
		return s, fmt.Errorf("it answers %s", resp.Status)
	}
	var varz struct {
		Name      string `json:"server_name"`
		JetStream struct {
			Config *struct {
				Interval time.Duration `json:"sync_interval"`
				Always   bool          `json:"sync_always"`
			} `json:"config"`
		} `json:"jetstream"`
	}
	if err := json.NewDecoder(io.LimitReader(resp.Body, monitorBytes)).Decode(&varz); err != nil {
		return s, fmt.Errorf("no description of a server: %w", err)
	}
	if varz.Name == "" || varz.JetStream.Config == nil {
		return s, fmt.Errorf("%w: server %q says nothing of it", api.ErrNoJetStream, varz.Name)
	}
	return ServerSync{Server: varz.Name, Always: varz.JetStream.Config.Always, Interval: varz.JetStream.Config.Interval}, nil
}
