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
	Shown *keys.Directory // the version that the auditor was shown; nil: none
}

// skew is the accepted difference between clocks, so that a key that was retired in time does not look backdated.
const skew = 5 * time.Minute

// listing is a logged version of the directory of keys.
type listing struct {
	headlog.Listing

	index int64
}

// logged is a logged head with its entry in the journal.
type logged struct {
	headlog.Leaf

	index int64
	at    content.Time // of the entry
}

// directory compares the versions of the directory of keys in the log with the versions in the cell.
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
	var before *keys.Directory // the newest version that the cell has as well
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
			c.wrong(verdict.Missing, l.Version, "the log has it, but the deployment does not")
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
		default: // it will be logged later
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

// shown compares the version that the auditor was shown with the logged versions.
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

// revocations checks the revocations that are new in a version. The version is leaf index and the previous version is leaf
// since: everything between them was logged before the version was published.
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
				c.fault(h.Session, verdict.Forged, h.Seq, "it was logged before version %d of the directory of keys, which retires the key of %s from an earlier time on, %s: that was backdated", d.Version, k.Name, r.At)
				break
			}
		}
	}
}
