package report

import "github.com/turnlog/turnlog/content"

// Finding is one problem of a deployment, as a doctor reports it.
type Finding struct {
	Severity string              `json:"severity" doc:"error or warning"`
	Check    string              `json:"check" doc:"its name, which does not change"`
	Object   string              `json:"object,omitempty"`
	What     string              `json:"what"`
	Why      string              `json:"why" doc:"why it matters"`
	Do       string              `json:"do" doc:"what to do"`
	Sessions []content.SessionID `json:"sessions,omitempty" doc:"some of those that it is about"`
}
