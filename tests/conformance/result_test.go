package conformance

import (
	"github.com/google/go-cmp/cmp"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/session"
)

// result compares a turn's result with the scenario.
func (p *player) result(want result, st session.Step) {
	p.t.Helper()
	f, ok := st.(*session.Finished)
	if !ok {
		p.wrong("%s: %T has no result", p.at, st)
		return
	}
	r := f.Result
	var got result
	if want.Rounds != 0 {
		got.Rounds = r.Rounds
	}
	if want.Items != 0 {
		got.Items = len(r.Items)
	}
	if want.Input != 0 || want.Output != 0 {
		got.Input, got.Output = r.Usage.InputTokens, r.Usage.OutputTokens
	}
	if want.Interrupted != "" && interrupted(r.Metadata) {
		got.Interrupted = r.Metadata.Text(content.MetaInterruptReason)
	}
	if want.Stage != "" {
		got.Stage = r.Metadata.Text(content.MetaInterruptStage)
	}
	if want.Limit != "" && r.Limit != nil {
		got.Limit = r.Limit.Text()
	}
	if want.Hook != "" {
		got.Hook = r.Metadata.Text(content.MetaHook) + " " + r.Metadata.Text(content.MetaHookPoint) + ": " + r.Metadata.Text(content.MetaHookReason)
	}
	if t := r.Task; want.Task != nil && t != nil {
		got.Task = &taskResult{Status: t.Status, Verify: t.VerifyStatus, Verified: t.Verified, Attempts: t.Attempts, Files: t.FilesChanged, Summary: t.Summary}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		p.wrong("%s: result, -want +got:\n%s", p.at, diff)
	}
}

func interrupted(m content.Metadata) bool {
	raw, ok := m.Get(content.MetaInterrupted)
	return ok && string(raw) == "true"
}
