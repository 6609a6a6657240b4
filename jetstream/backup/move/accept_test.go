package move

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/turnlog/turnlog/audit/keys"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/jetstream"
	"github.com/turnlog/turnlog/jetstream/signers"
)

// publish stores a directory of keys.
func publish(t *testing.T, c Cell, version uint64, of []keys.Key, required ...keys.Requirement) {
	t.Helper()
	root, err := keys.NewRoot()
	must(t, err)
	d := &keys.Directory{Cell: c.Namespace(), Version: version, At: content.TimeOf(time.Now()), Keys: of, Required: required}
	signed, err := d.Sign(root)
	must(t, err)
	must(t, signers.Publish(t.Context(), c.Cell, version, signed))
}

func TestASessionStaysIfNodesThereWouldRefuseItsEntries(t *testing.T) {
	t.Parallel()
	driver, err := keys.New()
	must(t, err)
	own, err := keys.New()
	must(t, err)
	listed := func(s *keys.Signer, name string) keys.Key {
		return keys.Key{Public: s.Public(), Roles: []keys.Role{keys.Driver}, Name: name, From: 1}
	}
	always := keys.Requirement{Role: keys.Driver, From: 1}
	for name, c := range map[string]struct {
		version uint64
		keys    []keys.Key
		require []keys.Requirement
		own     *keys.Signer // of the mover
		says    string       // "": it moves
	}{
		"no directory":        {},
		"the driver's key":    {7, []keys.Key{listed(driver, "n1")}, nil, nil, ""},
		"both keys, required": {7, []keys.Key{listed(driver, "n1"), listed(own, "mover")}, []keys.Requirement{always}, own, ""},
		"no key":              {7, nil, nil, nil, "key " + driver.ID()},
		"not the mover's":     {7, []keys.Key{listed(driver, "n1")}, nil, own, "the key with which this move signs"},
		"an unsigned claim":   {7, []keys.Key{listed(driver, "n1")}, []keys.Requirement{always}, nil, "the claim of the move"},
		"an older directory":  {6, []keys.Key{listed(driver, "n1")}, nil, nil, "a driver used version 7"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a, b := cell(t, "a"), cell(t, "b")
			signing := a
			signing.Cell = a.Signing(driver)
			head := write(t, signing, "s", events.DriverClaimed{Epoch: 1, Node: "n1", Key: driver.ID(), Keys: 7}, events.RunStarted{}, events.Parked{})
			if c.version > 0 {
				publish(t, b, c.version, c.keys, c.require...)
			}
			to := b
			if c.own != nil {
				to.Cell = b.Signing(c.own)
			}
			_, err := mover(t, a, to).Move(t.Context(), "s", head, events.SessionDeleted{})
			if c.says == "" {
				must(t, err)
			} else if !errors.Is(err, ErrKeys) || !strings.Contains(err.Error(), c.says) {
				t.Errorf("move = %v, want %q", err, c.says)
			}
			if there := lives(t, b, "s"); there != (c.says == "") || lives(t, a, "s") == there {
				t.Errorf("it lives there: %t", there)
			}
		})
	}
}

func TestASealedSessionStaysIfANodeThereLacksItsSealKey(t *testing.T) {
	t.Parallel()
	a, b := cell(t, "a"), cell(t, "b")
	right, other := ring(t), ring(t)
	a.Cell = a.Sealing(right)
	must(t, a.Seal(t.Context(), "s", ""))
	head := begin(t, a, "s")
	must(t, b.Sealing(append(other, right...)).Nodes().Record(t.Context(), jetstream.NodeRecord{Node: "n1"}))
	must(t, b.Sealing(other).Nodes().Record(t.Context(), jetstream.NodeRecord{Node: "n2"}))
	_, err := mover(t, a, b).Move(t.Context(), "s", head, events.SessionDeleted{})
	if !errors.Is(err, ErrKeys) || !strings.Contains(err.Error(), "the node n2 does not have the seal key "+right[0].ID()) || !lives(t, a, "s") {
		t.Errorf("move = %v", err)
	}
	must(t, b.Nodes().Forget(t.Context(), "n2"))
	moved(t, a, b, "s", head)
}
