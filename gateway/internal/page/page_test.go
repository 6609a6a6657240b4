package page

import (
	"io/fs"
	"net/http"
	"net/http/httptest"
	"path"
	"regexp"
	"strings"
	"testing"
)

func get(t *testing.T, method, target string, header ...string) (http.Header, int, string, bool) {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), method, target, nil)
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	ok := Serve(w, r)
	return w.Header(), w.Code, w.Body.String(), ok
}

func TestThePageIsServedWithItsPolicy(t *testing.T) {
	t.Parallel()
	header, code, body, ok := get(t, http.MethodGet, "/")
	if !ok || code != http.StatusOK || !strings.Contains(body, `src="/page/app.js"`) || header.Get("Content-Security-Policy") != Policy {
		t.Fatalf("the page: %t %d %v\n%s", ok, code, header, body)
	}
	if strings.Contains(Policy, "unsafe") || !strings.Contains(Policy, "default-src 'none'") || !strings.Contains(Policy, "frame-ancestors 'none'") {
		t.Errorf("the policy is %s", Policy)
	}
	for target, kind := range map[string]string{
		"/page/app.js": "text/javascript; charset=utf-8", "/page/style.css": "text/css; charset=utf-8", "/page/icon.svg": "image/svg+xml",
	} {
		header, _, _, ok := get(t, http.MethodGet, target)
		if !ok || header.Get("Content-Type") != kind {
			t.Errorf("%s: %t %v", target, ok, header)
		}
		if _, code, body, _ := get(t, http.MethodGet, target, "If-None-Match", header.Get("ETag")); code != http.StatusNotModified || body != "" {
			t.Errorf("%s again: %d", target, code)
		}
	}
	for _, target := range []string{"/page/", "/page/none.js", "/page/../page.go", "/page/%2e%2e/page.go", "/page/assets/app.js", "/pages", "/api/sessions"} {
		if _, code, _, ok := get(t, http.MethodGet, target); ok {
			t.Errorf("%s is served: %d", target, code)
		}
	}
}

// TestThePageNeedsNothingFromElsewhere checks that files refer only to files of the page and make no elements from strings.
func TestThePageNeedsNothingFromElsewhere(t *testing.T) {
	t.Parallel()
	refers := regexp.MustCompile(`(?:from '\./|(?:src|href)="/page/)([a-z.]+)['"]`)
	seen := 0
	err := fs.WalkDir(files, "assets", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := fs.ReadFile(files, name)
		text := string(data)
		for _, m := range refers.FindAllStringSubmatch(text, -1) {
			seen++
			if _, err := fs.Stat(files, path.Join("assets", m[1])); err != nil {
				t.Errorf("%s refers to %s: %v", name, m[1], err)
			}
		}
		for _, never := range []string{"innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "new Function", "style=", "javascript:", "onclick=\"", "@import", "url("} {
			if strings.Contains(text, never) {
				t.Errorf("%s has %s", name, never)
			}
		}
		if strings.Contains(text, "<script>") || regexp.MustCompile(`(src|href)="https?:`).MatchString(text) {
			t.Errorf("%s has a script of its own, or something from elsewhere", name)
		}
		return err
	})
	if err != nil || seen < 8 {
		t.Errorf("%d references, %v", seen, err)
	}
}
