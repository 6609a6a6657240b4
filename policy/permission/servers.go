package permission

import (
	"context"
	"encoding/json"
	"slices"
	"strings"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/tool"
)

// Servers is a policy for requests of the kinds mcp.…, whose target names a server and the
// scopes of its credentials: {"server":"files","scopes":["read"]}.
type Servers struct {
	Trust   []string `json:"trust,omitempty"`   // servers that may be called; none: all that are not denied
	Deny    []string `json:"deny,omitempty"`    // servers that may not
	Scopes  []string `json:"scopes,omitempty"`  // allowed scopes; none: any
	Outside string   `json:"outside,omitempty"` // for other servers and scopes: ask (the default) or deny
}

var _ tool.Permissions = Servers{}

// Evaluate judges the server and each scope of the request separately.
func (p Servers) Evaluate(_ context.Context, r tool.Request) (tool.Verdict, error) {
	if !strings.HasPrefix(r.Kind, kindsServer) {
		return tool.Verdict{}, nil
	}
	var t struct {
		Server string   `json:"server"`
		Scopes []string `json:"scopes"`
	}
	if err := json.Unmarshal(r.Target, &t); err != nil || t.Server == "" {
		//nolint:nilerr // what cannot be read is denied
		return deny(CodeUnreadable, "the request %s names no server", r.Kind), nil
	}
	if slices.Contains(p.Deny, t.Server) {
		return deny(CodeServer, "server %s is denied", t.Server), nil
	}
	verdicts := []tool.Verdict{allow()}
	if len(p.Trust) > 0 && !slices.Contains(p.Trust, t.Server) {
		question := ask(KindServer, t.Server, content.SensitiveServer, summary(r)+": server "+t.Server)
		verdicts = append(verdicts, refuse(p.Outside, question, CodeServer, "server %s is not trusted", t.Server))
	}
	for _, s := range t.Scopes {
		if len(p.Scopes) > 0 && !slices.Contains(p.Scopes, s) {
			question := ask(KindAuthScope, t.Server+" "+s, content.SensitiveAuthScope, summary(r)+": "+s+" at server "+t.Server)
			verdicts = append(verdicts, refuse(p.Outside, question, CodeAuthScope, "scope %s of server %s is not allowed", s, t.Server))
		}
	}
	return combine(verdicts...), nil
}
