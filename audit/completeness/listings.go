package completeness

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/turnlog/turnlog/audit/headlog"
	"github.com/turnlog/turnlog/audit/keys"
	"github.com/turnlog/turnlog/audit/verdict"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/jetstream/signers"
)

// Keys are the directory of keys with which the log is compared.
type Keys struct {
	Root  string          // the public key of its root; "": it is not compared
	Shown *keys.Directory // the version that somebody showed the auditor; nil: none
}

// skew is how far clocks may differ, so that a key that was retired in time does not seem to be dated back.
const skew = 5 * time.Minute

// listing is a version of the directory of keys as the log has it.
type listing struct {
	headlog.Listing

	index int64
}

// logged is a head as its journal has it.
type logged struct {
	headlog.Leaf

	index int64
	at    content.Time // of the entry
}

// directory compares the versions of the directory of keys that the log has with those that the cell has.
func (c *check) directory(ctx context.Context) error {
	if c.keys.Root == "" {
		return nil
	}
	published := map[events.Hash]*keys.Directory{}
	for v, err := range signers.Versions(ctx, c.cell, c.keys.Root, 0) {
		if err != nil {
			return err
		}
		published[v.Digest()] = v.Directory
	}
	seen := map[uint64]listing{}
	var newest listing
	var before *keys.Directory // the newest version that the cell has, too
	last := uint64(0)
	for _, l := range c.listings {
		if l.Before != last {
			c.wrong(verdict.Forged, l.Version, "its leaf %d names version %d as the one before, and that is version %d", l.index, l.Before, last)
		}
		last = l.Version
		if other, twice := seen[l.Version]; twice {
			if other.Hash != l.Hash {
				c.wrong(verdict.Replaced, l.Version, "leaf %d has the hash %s, and leaf %d has %s: two directories were shown", other.index, other.Hash, l.index, l.Hash)
			}
			continue
		}
		seen[l.Version] = l
		if l.Version < newest.Version {
			c.wrong(verdict.RolledBack, l.Version, "it was logged after version %d", newest.Version)
			continue
		}
		d := published[l.Hash]
		if d == nil {
			c.wrong(verdict.Missing, l.Version, "the log has it, but the deployment does not show it")
		} else {
			if err := d.Follows(before); err != nil {
				c.wrong(verdict.RolledBack, l.Version, "%v", err)
			}
			c.revocations(d, before, newest.index, l.index)
			before = d
		}
		newest = l
	}
	c.Directory = newest.Version
	byVersion := func(a, b *keys.Directory) int { return cmp.Compare(a.Version, b.Version) }
	for _, d := range slices.SortedFunc(maps.Values(published), byVersion) {
		switch _, logged := seen[d.Version]; {
		case logged:
		case d.Version < newest.Version:
			c.wrong(verdict.Missing, d.Version, "the deployment shows it, and the log has only later ones")
		default: // the log gets it yet
			if err := d.Follows(before); err != nil {
				c.wrong(verdict.RolledBack, d.Version, "%v", err)
			}
			before = d
		}
	}
	c.shown(seen, newest)
	return nil
}

// wrong adds a fault of a version.
func (c *check) wrong(kind verdict.Kind, version uint64, format string, args ...any) {
	c.fault("", kind, 0, "version %d of the directory of keys: %s", version, fmt.Sprintf(format, args...))
}

// shown compares the version that the auditor was shown with those that the log has.
func (c *check) shown(seen map[uint64]listing, newest listing) {
	d := c.keys.Shown
	if d == nil {
		return
	}
	l, logged := seen[d.Version]
	switch {
	case !logged:
		c.wrong(verdict.Missing, d.Version, "it was shown to you, but the log does not have it")
	case l.Hash != d.Digest():
		c.wrong(verdict.Replaced, d.Version, "another one was shown to you than the log has")
	case d.Version < newest.Version:
		c.wrong(verdict.RolledBack, d.Version, "it was shown to you, but the log has version %d", newest.Version)
	}
}

// revocations checks what a version says for the first time. The version before is leaf since, and it is leaf index:
// what was logged between them was logged before it was published.
func (c *check) revocations(d, before *keys.Directory, since, index int64) {
	for _, k := range d.Keys {
		r := k.Revoked
		if r == nil {
			continue
		}
		var old keys.Key
		if before != nil {
			old, _ = before.Lookup(k.ID())
		}
		if old.Revoked != nil && *old.Revoked == *r {
			continue
		}
		if r.Log == c.Log && r.Size > index {
			c.fault("", verdict.Forged, 0, "version %d of the directory of keys revokes the key of %s at size %d of the log, which had %d leaves then", d.Version, k.Name, r.Size, index)
		}
		for _, h := range c.heads {
			if !r.Stolen && old.Public != "" && h.index > since && h.index < index && h.at >= r.At.Add(skew) {
				c.fault(h.Session, verdict.Forged, h.Seq, "it was logged before version %d of the directory of keys, which retires the key of %s from an earlier time on, %s: that was dated back", d.Version, k.Name, r.At)
				break
			}
		}
	}
}
