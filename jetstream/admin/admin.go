// Package admin creates the streams of a cell and looks after them: provisioning and its
// checks, inspection, permissions, the deletion of sessions and the collection of blobs.
//
// Nothing here runs while a session does. Operators, and processes that start up, use it; what
// sessions, workers and clients use is in package jetstream.
package admin

import (
	"github.com/nats-io/nats.go"

	"github.com/turnlog/turnlog/jetstream"
	"github.com/turnlog/turnlog/jetstream/internal/api"
	"github.com/turnlog/turnlog/jetstream/internal/blob"
	"github.com/turnlog/turnlog/jetstream/internal/layout"
)

// Cell is a cell as its operators see it. It is safe for concurrent use.
type Cell struct {
	nc    *nats.Conn
	api   *api.Conn
	names names
	blobs *blob.Store
	cell  *jetstream.Cell
}

// names adds to the names of a cell what its operators need.
type names struct{ layout.Names }

// Of returns the operators' view of a cell.
func Of(c *jetstream.Cell) *Cell {
	a := &Cell{nc: c.Conn(), api: api.New(c.Conn()), names: names{layout.New(c.Namespace())}, cell: c}
	a.blobs = blob.NewStore(a.api, a.names.Names)
	return a
}
