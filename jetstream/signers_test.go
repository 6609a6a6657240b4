package jetstream_test

import (
	"errors"
	"testing"
	"testing/synctest"

	"github.com/nats-io/nats.go"

	"github.com/turnlog/turnlog/audit/keys"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/internal/testing/natstest"
	"github.com/turnlog/turnlog/jetstream"
	"github.com/turnlog/turnlog/jetstream/signers"
)

// signedCell is a provisioned cell with a root of its keys.
type signedCell struct {
	*jetstream.Cell

	t    *testing.T
	root *keys.Signer
	key  keys.Key
}

func withSigners(t *testing.T, test func(t *testing.T, c *signedCell)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		root, err := keys.NewRoot()
		natstest.Must(t, err)
		node, err := keys.New()
		natstest.Must(t, err)
		test(t, &signedCell{provisioned(t), t, root, keys.Key{Public: node.Public(), Roles: []keys.Role{keys.Driver}, Name: "node-1", From: 1e9}})
	})
}

// signed returns a version of the directory, with an optional change.
func (c *signedCell) signed(version uint64, by *keys.Signer, change func(*keys.Directory)) []byte {
	c.t.Helper()
	d := &keys.Directory{Cell: c.Namespace(), Version: version, At: content.Time(version) * 1e9, Keys: []keys.Key{c.key}}
	if change != nil {
		change(d)
	}
	raw, err := d.Sign(by)
	natstest.Must(c.t, err)
	return raw
}

func (c *signedCell) publish(version uint64, raw []byte) {
	c.t.Helper()
	natstest.Must(c.t, signers.Publish(c.t.Context(), c.Cell, version, raw))
}

func TestNodesFollowTheNewestDirectory(t *testing.T) {
	withSigners(t, func(t *testing.T, c *signedCell) {
		if _, err := signers.Open(t.Context(), c.Cell, c.root.Public()); !errors.Is(err, signers.ErrNone) {
			t.Fatalf("Open without a directory = %v, want ErrNone", err)
		}
		first := c.signed(1, c.root, nil)
		c.publish(1, first)
		c.publish(1, first) // again
		d, err := signers.Open(t.Context(), c.Cell, c.root.Public())
		natstest.Must(t, err)
		if v := d.Newest().Version; v != 1 {
			t.Fatalf("version %d, want 1", v)
		}
		revoked := func(d *keys.Directory) { d.Keys[0].Revoked = &keys.Revocation{At: 5e9, Reason: "test"} }
		c.publish(3, c.signed(3, c.root, revoked))
		c.publish(2, c.signed(2, c.root, nil)) // late
		natstest.Must(t, d.Refresh(t.Context()))
		if k, _ := d.Newest().Lookup(c.key.ID()); d.Newest().Version != 3 || k.Revoked == nil {
			t.Errorf("newest = %+v, want version 3 with the revocation", d.Newest())
		}
		c.publish(4, c.signed(4, c.root, nil)) // it undoes the revocation
		if err := d.Refresh(t.Context()); !errors.Is(err, keys.ErrRolledBack) || d.Newest().Version != 3 {
			t.Errorf("Refresh = %v with version %d, want ErrRolledBack and 3", err, d.Newest().Version)
		}
	})
}

func TestWhatTheRootDidNotSignCountsForNothing(t *testing.T) {
	withSigners(t, func(t *testing.T, c *signedCell) {
		stranger, err := keys.NewRoot()
		natstest.Must(t, err)
		c.publish(1, c.signed(1, c.root, nil))
		c.publish(8, c.signed(8, stranger, nil))
		c.publish(9, c.signed(9, c.root, func(d *keys.Directory) { d.Cell = "other" }))
		c.publish(10, []byte("{}"))
		spoofed := nats.NewMsg("turnlog.signers.11")
		spoofed.Data = c.signed(11, c.root, nil)
		spoofed.Header.Set("Nats-Stream", "S")
		natstest.Must(t, c.Conn().PublishMsg(spoofed))
		d, err := signers.Open(t.Context(), c.Cell, c.root.Public())
		natstest.Must(t, err)
		if v := d.Newest().Version; v != 1 {
			t.Errorf("version %d, want 1", v)
		}
		if err := signers.Publish(t.Context(), c.Cell, 8, c.signed(8, c.root, nil)); !errors.Is(err, signers.ErrTaken) {
			t.Errorf("Publish under a version that is taken = %v, want ErrTaken", err)
		}
		if _, err := signers.Open(t.Context(), c.Cell, "U"); !errors.Is(err, keys.ErrBadKey) {
			t.Errorf("Open with a bad root = %v, want ErrBadKey", err)
		}
	})
}
