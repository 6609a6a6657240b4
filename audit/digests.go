package audit

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strings"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/tool"
)

// digestsFit: every digest is computed again. This covers the arguments with which a call was requested,
// shown to approvers, patched and run, the definition of the agent, and the transcript that a mutator
// produced. Digests of values that no journal holds, such as policies and tool specs, are only compared
// with each other.
func digestsFit() rule {
	var d digests
	return func(f *fact) {
		switch ev := f.event.(type) {
		case events.RunStarted:
			d.configure(f, ev.Config)
		case events.ConfigChanged:
			d.configure(f, ev.Config)
		case events.ToolCatalogChanged:
			d.catalog = ev.Digest
		case events.ModelCallStarted:
			d.offered(f, ev.Catalog)
		case events.MutationFinished:
			replaced(f, ev)
		case events.ToolCallRequested:
			d.fits(f, ev.Call.ID, "is requested", ev.Call.Input, ev.Routing.Digest)
		case events.ApprovalRequired:
			d.fits(f, ev.Approval.CallID, "is shown to approvers", ev.Approval.Input, ev.Approval.Digest)
		case events.ApprovalResolved:
			if len(ev.Input) > 0 {
				d.fits(f, ev.Call, "is approved", ev.Input, ev.Digest)
			}
		case events.ToolDispatched:
			d.fits(f, ev.Call, "runs", f.ledger.effective(ev), ev.Digest)
		}
	}
}

// digests remembers the values from which the latest digests were computed.
type digests struct {
	catalog string // in force

	input  []byte // the latest arguments, which are compared before they are hashed again
	digest string
}

// fits checks the digest of arguments. An empty digest means that the host computes none.
func (d *digests) fits(f *fact, call content.CallID, what string, input json.RawMessage, digest string) {
	if digest == "" {
		return
	}
	if d.digest == "" || !bytes.Equal(d.input, input) {
		d.input, d.digest = input, tool.Digest(input)
	}
	if digest != d.digest {
		f.fail("call %s %s with arguments of digest %s, but the recorded digest is %s", call, what, d.digest, digest)
	}
}

func (d *digests) configure(f *fact, c events.Config) {
	d.catalog = c.Catalog.Digest
	if a := c.Agent; a != nil && a.Version != "" && len(a.Data) > 0 {
		if sum := sha256.Sum256(a.Data); !strings.HasPrefix(hex.EncodeToString(sum[:]), a.Version) {
			f.fail("agent %s has the version %s, but its definition has the digest %x", a.Name, a.Version, sum)
		}
	}
}

// offered checks that a call of the model names the catalog in force.
func (d *digests) offered(f *fact, catalog string) {
	if catalog != "" && d.catalog != "" && catalog != d.catalog {
		f.fail("a %T names the catalog %s, but %s is in force", f.event, catalog, d.catalog)
	}
}

// replaced checks that a mutator reports different digests before and after if and only if it replaced the transcript, and
// that the second one is the digest of the replacement. A host that computes no digests leaves both empty. Digests of
// earlier releases can only be compared.
func replaced(f *fact, ev events.MutationFinished) {
	if ev.Before == "" && ev.After == "" {
		return
	}
	if ev.Dirty != (ev.Before != ev.After) {
		f.fail("mutator %s replaces the transcript: %t, but it reports the digests %s before and %s after", ev.Mutator, ev.Dirty, ev.Before, ev.After)
		return
	}
	if !ev.Dirty || !strings.HasPrefix(ev.After, content.DigestForm) {
		return
	}
	if digest, err := content.Digest(ev.Replacement); err != nil || digest != ev.After {
		f.fail("mutator %s replaces the transcript by one of digest %s, but the recorded digest is %s", ev.Mutator, digest, ev.After)
	}
}

// effective returns the arguments with which a call runs.
func (l *ledger) effective(ev events.ToolDispatched) json.RawMessage {
	c := l.of(ev.Call)
	switch {
	case len(ev.Input) > 0:
		return ev.Input
	case c.patch != nil:
		return c.patch
	}
	return c.Input
}
