package report

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/turnlog/turnlog/audit/render"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/loop"
	"github.com/turnlog/turnlog/policy/permission"
)

// Approval is a question that a person has to answer, as reports show it.
type Approval struct {
	ID        content.ApprovalID     `json:"id"`
	Call      content.CallID         `json:"call"`
	Tool      string                 `json:"tool"`
	Reason    content.ApprovalReason `json:"reason"`
	Summary   string                 `json:"summary"`
	Input     json.RawMessage        `json:"input"`
	Digest    string                 `json:"digest"`
	Covers    string                 `json:"covers"`                     // what approving the call for always covers, or ""
	ExpiresAt *content.Time          `json:"expires_at" nullable:"true"` // null: never
}

// ApprovalOf returns an approval for a report.
func ApprovalOf(a events.Approval) Approval {
	r := Approval{ID: a.ID, Call: a.CallID, Tool: a.Tool, Reason: a.Reason, Summary: a.Summary, Input: a.Input, Digest: a.Digest, Covers: Covers(a)}
	if a.ExpiresAt != 0 {
		r.ExpiresAt = &a.ExpiresAt
	}
	return r
}

// QuestionOf says in full what an approval is about, without the call itself.
func QuestionOf(a events.Approval) string { return ApprovalOf(a).Question() }

// Question says in full what the approval is about.
func (a Approval) Question() string {
	if a.Summary != "" && a.Summary != events.CallSummary(a.Tool, a.Input) {
		return render.Style{Full: true}.Line(a.Summary)
	}
	return strings.ReplaceAll(string(a.Reason), "_", " ")
}

// digestLen is the length of a scope that is a digest of the question's subject.
const digestLen = 64

// Covers says which calls "approve always" covers: those that raise the same question, with the same kind and
// scope. It returns "" if the question is asked every time.
func Covers(a events.Approval) string {
	every, scope := fmt.Sprintf("every call of %s in this session", a.Tool), " "+a.Scope
	switch {
	case a.RequestKind == loop.KindRetry: // asked after each loss
		return ""
	case a.RequestKind == permission.KindCall && a.Scope == "":
		return every + ", whatever its arguments"
	case a.RequestKind == permission.KindCall:
		return every + " with the same arguments"
	case a.Scope == "":
		scope = ", whatever its arguments"
	case len(a.Scope) == digestLen:
		scope = " with exactly the same target"
	}
	return every + " that asks about " + a.RequestKind + scope
}
