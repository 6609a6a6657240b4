package signed

import (
	"errors"
	"fmt"
	"slices"

	"github.com/turnlog/turnlog/audit/keys"
	"github.com/turnlog/turnlog/audit/verdict"
	"github.com/turnlog/turnlog/content"
)

// Head is an entry in a log of heads.
type Head struct {
	Log     string // its origin
	Session content.SessionID
	Seq     uint64
	Index   int64 // index of its leaf
}

// Listed is a version of the directory of keys in a log of heads.
type Listed struct {
	Log       string
	Index     int64
	Before    uint64 // the version that the log has before it; 0: none
	Directory *keys.Directory
}

// Log has the places of entries and directories in logs of heads, according to proofs that witnesses cosigned. A nil
// *Log has none.
//
// Of two leaves of a log, the one with the lower index was logged first, whatever dates their texts have. So an entry
// that was logged before the version of the directory that retires its key was signed before, and an entry that was
// logged below the size at which a key was stolen was signed before the theft.
type Log struct {
	Heads  []Head
	Listed []Listed
}

// Newest returns the newest version of the directory, given or logged. Contradicting versions are a fault. If the given
// version is older, there is a warning.
func (l *Log) Newest(given []*keys.Directory) (newest *keys.Directory, faults, warnings []verdict.Fault) {
	if l == nil {
		l = &Log{}
	}
	all, latest := slices.Clone(l.Listed), uint64(0)
	for _, d := range given {
		all, latest = append(all, Listed{Directory: d}), max(latest, d.Version)
	}
	slices.SortStableFunc(all, func(a, b Listed) int { return int(a.Directory.Version) - int(b.Directory.Version) }) //nolint:gosec // versions are small
	for _, v := range all {
		switch {
		case newest == nil || newest.Digest() == v.Directory.Digest():
		case newest.Version == v.Directory.Version:
			faults = append(faults, verdict.Fault{Kind: verdict.Replaced, What: fmt.Sprintf("two directories of keys were shown as version %d", newest.Version)})
			continue
		default:
			if err := v.Directory.Follows(newest); err != nil {
				faults = append(faults, verdict.Fault{Kind: verdict.RolledBack, What: err.Error()})
			}
		}
		newest = v.Directory
	}
	for _, v := range l.Listed {
		for _, k := range v.Directory.Keys {
			if k.Revoked != nil && k.Revoked.Log == v.Log && k.Revoked.Size > v.Index {
				faults = append(faults, verdict.Fault{Kind: verdict.Forged, What: fmt.Sprintf(
					"version %d of the directory of keys revokes the key of %s at size %d of the log, which had %d leaves then", v.Directory.Version, k.Name, k.Revoked.Size, v.Index)})
			}
		}
	}
	if len(given) > 0 && latest < newest.Version {
		warnings = append(warnings, verdict.Fault{
			Kind: verdict.RolledBack, What: fmt.Sprintf("the directory of keys that was given is version %d, and the proof has version %d, which is used", latest, newest.Version),
		})
	}
	return newest, faults, warnings
}

// has reports whether the log has a version of the directory.
func (l *Log) has(d *keys.Directory) bool {
	return slices.ContainsFunc(l.Listed, func(v Listed) bool { return v.Directory.Digest() == d.Digest() })
}

// covering returns the heads that cover an entry.
func (l *Log) covering(r entry) (out []Head) {
	if l == nil {
		return nil
	}
	for _, h := range l.Heads {
		if h.Session == r.session && h.Seq >= r.seq {
			out = append(out, h)
		}
	}
	return out
}

// retiredAt returns where a log has the first version that ends a key in the same way. That is known only if the log also has
// the version before.
func (l *Log) retiredAt(k keys.Key, log string) (int64, bool) {
	for _, v := range l.Listed {
		is, ok := v.Directory.Lookup(k.ID())
		if v.Log != log || !ok || is.Revoked == nil || *is.Revoked != *k.Revoked {
			continue
		}
		for _, before := range l.Listed {
			if was, ok := before.Directory.Lookup(k.ID()); before.Log == log && before.Directory.Version == v.Before && before.Index < v.Index && ok && (was.Revoked == nil || *was.Revoked != *k.Revoked) {
				return v.Index, true
			}
		}
	}
	return 0, false
}

// before reports whether a log shows that an entry was logged before its key was revoked. after reports whether a log shows
// that it was not.
func (l *Log) before(r entry, k keys.Key) (before, after bool) {
	for _, h := range l.covering(r) {
		size := int64(0)
		if k.Revoked.Log == h.Log {
			size = k.Revoked.Size
		}
		if at, ok := l.retiredAt(k, h.Log); ok && !k.Revoked.Stolen && l.listing(h) {
			size = at
		}
		before = before || h.Index < size
		after = after || size > 0 && h.Index >= size
	}
	return before, after && !before
}

// listing reports whether the log had versions of the directory before a head, so that it would also have had a newer one.
func (l *Log) listing(h Head) bool {
	return slices.ContainsFunc(l.Listed, func(v Listed) bool { return v.Log == h.Log && v.Index < h.Index })
}

// listedBy reports whether the log had a key in the directory before it had an entry.
func (l *Log) listedBy(r entry, key string) bool {
	return slices.ContainsFunc(l.covering(r), func(h Head) bool {
		return slices.ContainsFunc(l.Listed, func(v Listed) bool {
			_, ok := v.Directory.Lookup(key)
			return ok && v.Log == h.Log && v.Index < h.Index
		})
	})
}

// judge judges a signature by a revoked key, by its place in the log if that is known. byDate is the directory's judgment by
// the time at which the entry was written. datedBack says that the place contradicts the dates.
func (l *Log) judge(r entry, k keys.Key, byDate error) (datedBack bool, err error) {
	if k.Revoked == nil || byDate != nil && !errors.Is(byDate, keys.ErrRevoked) {
		return false, byDate
	}
	before, after := l.before(r, k)
	switch {
	case before:
		return byDate != nil, nil
	case after && k.Revoked.Stolen && byDate == nil:
		byDate = fmt.Errorf("key %s of %s: %w: it was stolen when the log had %d leaves, and the entry was logged later", k.ID(), k.Name, keys.ErrRevoked, k.Revoked.Size)
	}
	for _, h := range l.covering(r) {
		if at, ok := l.retiredAt(k, h.Log); ok && h.Index < at && byDate != nil {
			return false, fmt.Errorf("%w; but the log has the entry as leaf %d, before that version of the directory, leaf %d", byDate, h.Index, at)
		}
	}
	return false, byDate
}

// places has the log by which the signatures of one journal are judged, and what it does not show.
type places struct {
	log  *Log
	keys *keys.Directory

	used  []use
	moved []use // whose place contradicts the dates of the directory
}

// use is the first use of a key.
type use struct {
	key keys.Key
	at  entry
}

// check judges the signature of a record with a key, as the directory did.
func (p *places) check(r entry, k keys.Key, byDate error) error {
	back, err := p.log.judge(r, k, byDate)
	first := func(to *[]use) {
		if !slices.ContainsFunc(*to, func(u use) bool { return u.key.Public == k.Public }) {
			*to = append(*to, use{k, r})
		}
	}
	if k.Public != "" && p.log != nil {
		first(&p.used)
	}
	if back {
		first(&p.moved)
	}
	return err
}

// judge adds to a verdict what the log shows about the directory, and what it does not.
func (p *places) judge(v *verdict.Verdict) {
	for _, u := range p.moved {
		v.Warnings = append(v.Warnings, verdict.Fault{Kind: verdict.Forged, Seq: u.at.seq, What: fmt.Sprintf(
			"the directory of keys says that the key of %s was %s at %s, but the log had this entry, which it signed later by its date, before the directory said so: that was backdated, and the signature is valid",
			u.key.Name, u.key.Revoked, u.key.Revoked.At)})
	}
	switch {
	case p.log == nil:
		return
	case !p.log.has(p.keys):
		v.Doubt(fmt.Sprintf("keys: that others see the same version %d of the directory of keys: no proof shows it in the log, so revocations are judged by their dates", p.keys.Version))
	default:
		v.Doubt(fmt.Sprintf("keys: that version %d of the directory of keys is the newest one: a later one may revoke more, and an audit of the log shows whether there is one", p.keys.Version))
	}
	for _, u := range p.used {
		if len(p.log.Listed) > 0 && len(p.log.covering(u.at)) > 0 && !p.log.listedBy(u.at, u.key.ID()) {
			v.Doubt(fmt.Sprintf("keys: that the directory had the key of %s before the log had entry %d, which it signed", u.key.Name, u.at.seq))
		}
	}
}
