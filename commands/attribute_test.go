package commands

import (
	"testing"

	"github.com/turnlog/turnlog/content"
)

func TestAVerifiedNameReplacesWhatASenderClaims(t *testing.T) {
	t.Parallel()
	eve := content.Sender{Name: "eve", Account: "A", Verified: true}
	for _, tt := range []struct {
		name     string
		command  Command
		by       string
		sender   content.Sender // as the host knows it
		want     content.Sender
		recorded string // as the decider
	}{
		{"verified", ResolveApproval{By: "ada"}, "ada", eve, eve, "eve"},
		{"verified grant", AllowTools{By: "ada"}, "", eve, eve, "eve"},
		{"verified settlement", SettleDeadLetter{By: "ada"}, "", eve, eve, "eve"},
		{"verified cancel", Cancel{}, "ada", eve, eve, "eve"},
		{"claimed", ResolveApproval{By: "ada"}, "cli", content.Sender{}, content.Sender{Name: "ada"}, "ada"},
		{"claimed by the envelope", ResolveApproval{}, "cli", content.Sender{}, content.Sender{Name: "cli"}, "cli"},
		{"a claim is not believed", Cancel{}, "ada", content.Sender{Name: "root", Account: "A"}, content.Sender{Name: "ada"}, "ada"},
		{"only the account is verified", Cancel{}, "ada", content.Sender{Account: "A", Verified: true}, content.Sender{Account: "A", Verified: true}, "ada"},
		{"a report has no sender", ReportTimer{}, "timer", content.Sender{}, content.Sender{}, "timer"},
	} {
		e := Envelope{By: tt.by, Command: tt.command, Sender: tt.sender}
		e.Attribute()
		recorded := e.By
		if c, ok := e.Command.(claim); ok {
			recorded = c.claimed()
		}
		if recorded == "" {
			recorded = e.By
		}
		if e.Sender != tt.want || recorded != tt.recorded {
			t.Errorf("%s: sender %+v, recorded %q; want %+v, %q", tt.name, e.Sender, recorded, tt.want, tt.recorded)
		}
	}
}
