package doctor

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/nats-io/nats.go"

	"github.com/turnlog/turnlog/internal/cli"
	"github.com/turnlog/turnlog/jetstream"
)

// denials collects the denials of the server. It never answers a forbidden
// request, but reports it separately.
type denials struct {
	mu       sync.Mutex
	subjects map[string]*jetstream.DeniedError
}

// blobs is the prefix of the subjects on which blobs are stored.
const blobs = "$O."

func listenForDenials(nc *nats.Conn) *denials {
	d := &denials{subjects: make(map[string]*jetstream.DeniedError)}
	cli.OnDenied(nc, func(denied *jetstream.DeniedError) {
		d.mu.Lock()
		defer d.mu.Unlock()
		if denied.Hearing || !strings.HasPrefix(denied.Subject, blobs) { // the doctor works without storing a blob
			d.subjects[denied.Subject] = denied
		}
	})
	return d
}

// about reports whether a request about a stream was denied.
func (d *denials) about(stream string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	for subject := range d.subjects {
		if strings.HasSuffix(subject, "."+stream) {
			return true
		}
	}
	return false
}

// unreadable reports requests that failed without being denied.
func (d *doctor) unreadable(lacking map[string]error) {
	d.denied.mu.Lock()
	defer d.denied.mu.Unlock()
	for _, subject := range slices.Sorted(maps.Keys(lacking)) {
		if _, denied := d.denied.subjects[subject]; !denied {
			d.notExamined("sessions", fmt.Errorf("request %s: %w", subject, lacking[subject]))
		}
	}
}

// permissions reports which permissions this user lacks.
func (d *doctor) permissions() {
	d.denied.mu.Lock()
	defer d.denied.mu.Unlock()
	lacking := make(map[string][]string) // subjects by verb
	for _, subject := range slices.Sorted(maps.Keys(d.denied.subjects)) {
		verb := "publish"
		if d.denied.subjects[subject].Hearing {
			verb = "subscribe"
		}
		lacking[verb] = append(lacking[verb], subject)
	}
	for _, verb := range slices.Sorted(maps.Keys(lacking)) {
		d.found("permission-missing", strings.Join(lacking[verb], " "), "this user may not %s to %d of the subjects that the doctor needs", verb, len(lacking[verb])).
			do("allow " + verb + " on them for this user, or connect as a user who has it (\"turnlog permissions doctor\" prints what the doctor needs)")
	}
}
