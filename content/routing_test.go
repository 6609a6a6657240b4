package content_test

import (
	"strings"
	"testing"
	"time"

	"github.com/turnlog/turnlog/content"
)

func TestRoutesAreParsed(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		text  string
		route content.Route
		after time.Duration
		fails string
	}{
		{text: "foreground"},
		{text: "background", route: content.Background},
		{text: "detach:30s", route: content.DetachSoon, after: 30 * time.Second},
		{text: "", fails: "use foreground, background or detach:DURATION"},
		{text: "detach", fails: "use foreground"},
		{text: "detach:", fails: `"": use a positive duration`},
		{text: "detach:0s", fails: `"0s": use a positive duration`},
		{text: "background:1s", fails: "use foreground"},
	} {
		route, after, err := content.ParseRoute(tt.text)
		switch {
		case tt.fails == "" && (err != nil || route != tt.route || after != tt.after):
			t.Errorf("ParseRoute(%q) = %q, %v, %v", tt.text, route, after, err)
		case tt.fails != "" && (err == nil || !strings.Contains(err.Error(), tt.fails)):
			t.Errorf("ParseRoute(%q) = %v, want %q", tt.text, err, tt.fails)
		}
	}
}
