package headlog

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	cosignatures "github.com/transparency-dev/formats/note"
	"golang.org/x/mod/sumdb/note"

	"github.com/turnlog/turnlog/content"
)

// ErrBadPolicy is returned by ParsePolicy for text that is not a policy. The error names the line.
var ErrBadPolicy = errors.New("bad policy")

// Policy says which logs and witnesses a verifier trusts, and which witnesses suffice (tlog-policy).
type Policy struct {
	logs      []note.Verifier
	witnesses []note.Verifier
	parts     map[string]part // witnesses and groups
	quorum    string
}

// part is a witness or a group of parts.
type part struct {
	witness note.Verifier // nil: a group
	members []string
	needs   int  // members
	grouped bool // it is a member already
}

// none is the quorum of a policy without required witnesses.
const none = "none"

// ParsePolicy parses a policy.
func ParsePolicy(text []byte) (*Policy, error) {
	p := &Policy{parts: map[string]part{}}
	n := 0
	for line := range bytes.Lines(text) {
		n++
		if err := p.line(string(bytes.TrimSuffix(line, []byte("\n")))); err != nil {
			return nil, fmt.Errorf("%w: line %d: %w", ErrBadPolicy, n, err)
		}
	}
	if p.quorum == "" {
		return nil, fmt.Errorf("%w: the line \"quorum NAME\" is missing", ErrBadPolicy)
	}
	return p, nil
}

func (p *Policy) line(line string) error {
	if i := strings.IndexFunc(line, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }); i >= 0 {
		return fmt.Errorf("the character %q is not allowed", line[i])
	}
	words := strings.FieldsFunc(line, func(r rune) bool { return r == ' ' || r == '\t' })
	if len(words) == 0 || strings.HasPrefix(words[0], "#") {
		return nil
	}
	args := words[1:]
	switch {
	case words[0] == "log" && (len(args) == 1 || len(args) == 2):
		return add(&p.logs, args[0], ParseLogKey)
	case words[0] == "witness" && (len(args) == 2 || len(args) == 3):
		if err := add(&p.witnesses, args[1], ParseWitnessKey); err != nil {
			return err
		}
		return p.define(args[0], part{witness: p.witnesses[len(p.witnesses)-1]})
	case words[0] == "group" && len(args) >= 3:
		return p.group(args[0], args[1], args[2:])
	case words[0] == "quorum" && len(args) == 1:
		if p.quorum != "" {
			return errors.New("a second quorum")
		}
		if _, ok := p.parts[args[0]]; !ok && args[0] != none {
			return fmt.Errorf("no line before it defines %q", args[0])
		}
		p.quorum = args[0]
		return nil
	}
	return fmt.Errorf("unknown line %q: use log KEY [URL], witness NAME KEY [URL], group NAME all|any|N NAME..., quorum NAME", content.Clip(line, 80))
}

// keyed is a verifier and its public key. Two keys are the same even if their names differ.
type keyed struct {
	note.Verifier

	public string
}

// add adds a key to a list that must not have it yet.
func add(to *[]note.Verifier, key string, parse func(string) (note.Verifier, error)) error {
	v, err := parse(key)
	if err != nil {
		return err
	}
	_, public, _ := strings.Cut(key, "+")
	_, public, _ = strings.Cut(public, "+")
	raw, err := base64.StdEncoding.DecodeString(public)
	if err != nil { // parse has decoded it
		return fmt.Errorf("key %q: %w", content.Clip(key, 80), err)
	}
	public = string(raw[1:])                                                                                // without the type
	if slices.ContainsFunc(*to, func(other note.Verifier) bool { return other.(keyed).public == public }) { //nolint:forcetypeassert // only add adds to it
		return fmt.Errorf("key %q is listed twice", content.Clip(key, 80))
	}
	*to = append(*to, keyed{v, public})
	return nil
}

// define adds a witness or a group under a new name.
func (p *Policy) define(name string, is part) error {
	if _, ok := p.parts[name]; ok || name == none {
		return fmt.Errorf("the name %q is already used", name)
	}
	p.parts[name] = is
	return nil
}

func (p *Policy) group(name, needs string, members []string) error {
	g := part{members: members}
	switch n, err := strconv.ParseUint(needs, 10, 31); {
	case needs == "any":
		g.needs = 1
	case needs == "all":
		g.needs = len(members)
	case err != nil || n < 1 || n > uint64(len(members)):
		return fmt.Errorf("group %s needs %q of %d: use all, any or a number from 1 to %d", name, needs, len(members), len(members))
	default:
		g.needs = int(n)
	}
	for _, m := range members {
		is, ok := p.parts[m]
		if !ok || is.grouped {
			return fmt.Errorf("group %s: no line before it defines %q, or it is already in a group", name, m)
		}
		is.grouped = true
		p.parts[m] = is
	}
	return p.define(name, g)
}

// Cosignature is the signature of a witness of the policy on a checkpoint.
type Cosignature struct {
	Witness string // the name of its key
	At      time.Time
}

// Witnessed is a checkpoint of a log of the policy.
type Witnessed struct {
	Checkpoint

	Cosignatures []Cosignature // of witnesses of the policy
	Quorum       bool          // they suffice, and there is at least one
}

// By returns a time by which the checkpoint existed: when a witness first cosigned it. 0: unknown.
func (w Witnessed) By() (first content.Time) {
	for _, c := range w.Cosignatures {
		if at := content.TimeOf(c.At); first == 0 || at < first {
			first = at
		}
	}
	return first
}

// Open verifies a note with a checkpoint. A missing quorum is not an error. The error is ErrUnknownLog, ErrForged or
// ErrBadCheckpoint.
func (p *Policy) Open(signed []byte) (Witnessed, error) {
	n, err := open(signed, slices.Concat(p.logs, p.witnesses)...)
	if err != nil {
		return Witnessed{}, err
	}
	var out Witnessed
	if out.Checkpoint, err = ParseCheckpoint(n.Text); err != nil {
		return Witnessed{}, err
	}
	signedBy := func(v note.Verifier) (note.Signature, bool) {
		i := slices.IndexFunc(n.Sigs, func(s note.Signature) bool { return s.Name == v.Name() && s.Hash == v.KeyHash() })
		if i < 0 {
			return note.Signature{}, false
		}
		return n.Sigs[i], true
	}
	if !slices.ContainsFunc(p.logs, func(v note.Verifier) bool { _, ok := signedBy(v); return ok && v.Name() == out.Origin }) {
		return Witnessed{}, fmt.Errorf("%w: %s", ErrUnknownLog, out.Origin)
	}
	for _, v := range p.witnesses {
		if s, ok := signedBy(v); ok {
			at, err := cosignatures.CoSigV1Timestamp(s)
			if err != nil {
				return Witnessed{}, fmt.Errorf("%w: cosignature of %s: %w", ErrBadCheckpoint, s.Name, err)
			}
			out.Cosignatures = append(out.Cosignatures, Cosignature{s.Name, at})
		}
	}
	out.Quorum = len(out.Cosignatures) > 0 && p.meets(p.quorum, func(v note.Verifier) bool { _, ok := signedBy(v); return ok })
	return out, nil
}

// meets reports whether a part of the policy signed.
func (p *Policy) meets(name string, signed func(note.Verifier) bool) bool {
	is := p.parts[name]
	if is.witness != nil {
		return signed(is.witness)
	}
	n := 0
	for _, m := range is.members {
		if p.meets(m, signed) {
			n++
		}
	}
	return n >= is.needs // a quorum of none has no members and needs none
}
