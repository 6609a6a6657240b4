// Package page serves a gateway's web page: sessions, their live transcripts, and one inbox for everything that waits
// for people.
//
// The page is a client of the gateway's public API in the browser. Its files are part of the binary, need no build, and
// load nothing from other servers. Text from models and tools becomes text nodes, never HTML, and the
// Content-Security-Policy permits only the page's own script.
package page

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"html/template"
	"net/http"
	"path"
	"strings"
	"time"
)

//go:embed assets enter.html
var files embed.FS

// Policy is the Content-Security-Policy of the page.
const Policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; " +
	"form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// Prefix is the prefix of the paths of the page's files.
const Prefix = "/page/"

// typeOf returns the content type of a file by its name. It does not use package mime, whose result depends on the machine.
func typeOf(name string) string {
	switch path.Ext(name) {
	case ".js":
		return "text/javascript; charset=utf-8"
	case ".css":
		return "text/css; charset=utf-8"
	case ".svg":
		return "image/svg+xml"
	}
	return "text/html; charset=utf-8"
}

// Serve serves the page, or one of its files below Prefix. It reports whether there is such a file.
func Serve(w http.ResponseWriter, r *http.Request) bool {
	name, ok := strings.CutPrefix(r.URL.Path, Prefix)
	switch {
	case r.URL.Path == "/":
		name = "index.html"
	case !ok:
		return false
	}
	return serve(w, r, name)
}

// Login is the content of the login page.
type Login struct {
	Login  bool   // people can log in with a provider
	Tokens bool   // people can enter a token
	Failed string // why the last attempt failed
	Status int
}

// ServeLogin serves the login page.
func ServeLogin(w http.ResponseWriter, d Login) {
	t, err := template.ParseFS(files, "enter.html")
	if err != nil {
		return // cannot happen: a test executes it
	}
	h := w.Header()
	h.Set("Content-Type", typeOf(".html"))
	h.Set("Content-Security-Policy", Policy)
	w.WriteHeader(d.Status)
	_ = t.Execute(w, d) // the browser may be gone
}

func serve(w http.ResponseWriter, r *http.Request, name string) bool {
	data, err := files.ReadFile(path.Join("assets", name))
	if err != nil {
		return false
	}
	sum := sha256.Sum256(data)
	h := w.Header()
	h.Set("Content-Type", typeOf(name))
	h.Set("Content-Security-Policy", Policy)
	h.Set("Cache-Control", "no-cache") // the browser revalidates its copy
	h.Set("ETag", `"`+hex.EncodeToString(sum[:12])+`"`)
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(data))
	return true
}
