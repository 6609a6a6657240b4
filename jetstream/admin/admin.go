// Package admin creates and maintains the streams of a cell: provisioning and its checks, inspection,
// permissions, deletion of sessions and collection of blobs.
//
// Operators use it, and processes while they start. Package jetstream has the operations of running
// sessions, workers and clients.
package admin

import (
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	turnlog "github.com/turnlog/turnlog/jetstream"
	"github.com/turnlog/turnlog/jetstream/internal/api"
	"github.com/turnlog/turnlog/jetstream/internal/blob"
	"github.com/turnlog/turnlog/jetstream/internal/layout"
)

// Cell is the operators' view of a cell. It is safe for concurrent use.
type Cell struct {
	nc    *nats.Conn
	js    jetstream.JetStream
	api   *api.Conn
	names names
	blobs *blob.Store
	cell  *turnlog.Cell
}

// names are the names of a cell.
type names struct{ layout.Names }

// stream returns the name of a stream on the server.
func (n names) stream(name string) string {
	for _, s := range n.Streams() {
		if s.Name == name {
			return s.Config.Name
		}
	}
	return ""
}

// Of returns the operators' view of a cell.
func Of(c *turnlog.Cell) *Cell {
	js, _ := jetstream.New(c.Conn()) // fails only for invalid options
	a := &Cell{nc: c.Conn(), js: js, api: api.New(c.Conn()), names: names{layout.New(c.Namespace())}, cell: c}
	a.blobs = blob.NewStore(a.api, a.names.Names)
	return a
}
