package fetch_test

import (
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/tool"
	"github.com/turnlog/turnlog/tool/fetch"
	"github.com/turnlog/turnlog/tool/tooltest"
)

func loopback() []netip.Prefix { return []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")} }

// serve starts a server with the pages, by path.
func serve(t *testing.T, pages map[string]http.HandlerFunc) *url.URL {
	t.Helper()
	mux := http.NewServeMux()
	for path, page := range pages {
		mux.HandleFunc(path, page)
	}
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	u, err := url.Parse(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

func page(kind, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", kind)
		_, _ = io.WriteString(w, body)
	}
}

func fetcher(t *testing.T, opts fetch.Options) tool.Tool {
	t.Helper()
	x, err := fetch.New(opts)
	if err != nil {
		t.Fatal(err)
	}
	return x
}

func get(t *testing.T, x tool.Tool, in map[string]any) content.ToolResult {
	t.Helper()
	raw, err := json.Marshal(in)
	if err != nil {
		t.Fatal(err)
	}
	return tool.Invoke(t.Context(), x, tool.Call{ID: "c1", Input: raw}).Result
}

func TestToolHoldsTheContract(t *testing.T) {
	t.Parallel()
	at := serve(t, map[string]http.HandlerFunc{
		"/":     page("text/plain", "hello"),
		"/slow": func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
	})
	x := fetcher(t, fetch.Options{Hosts: []string{at.Host}, Private: loopback()})
	tooltest.Run(
		t, x,
		tooltest.Case{Name: "page", Input: fmt.Sprintf(`{"url":%q}`, at), Text: "hello"},
		tooltest.Case{Name: "slow", Input: fmt.Sprintf(`{"url":"%s/slow"}`, at), Blocks: true},
		tooltest.Case{Name: "other host", Input: `{"url":"http://example.com"}`, Status: content.StatusError, Code: fetch.CodeHost},
	)
}

func TestBodiesAreShownAsText(t *testing.T) {
	t.Parallel()
	pages := map[string]http.HandlerFunc{
		"/text":  page("text/plain; charset=utf-8", "a <b>\n"),
		"/json":  page("application/json", `{"a":[1,2]}`),
		"/bad":   page("application/json", `{"a":`),
		"/html":  page("text/html", "<title>T</title><p>One <b>two</b></p><script>evil()</script><p>Three"),
		"/image": page("image/png", "\x89PNG\x00\x00"),
		"/lie":   page("text/plain", "a\x00b"),
		"/none":  func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) },
		"/404":   http.NotFound,
		"/big":   page("text/plain", strings.Repeat("x", 5000)),
		"/short": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "10")
			_, _ = io.WriteString(w, "half")
		},
		"/zip": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			w.Header().Set("Content-Type", "text/plain")
			z := gzip.NewWriter(w)
			_, _ = io.WriteString(z, strings.Repeat("z", 100_000))
			_ = z.Close()
		},
		"/from": func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/text", http.StatusFound) },
	}
	at := serve(t, pages)
	x := fetcher(t, fetch.Options{Hosts: []string{at.Host}, Private: loopback(), MaxBytes: 1000})
	for path, want := range map[string]string{
		"/text":  "200 OK; URL; text/plain; 6 bytes\n\na <b>\n",
		"/json":  "200 OK; URL; application/json; 11 bytes\n\n" + `{"a":[1,2]}`,
		"/bad":   "200 OK; URL; application/json; 5 bytes\n\n" + `{"a":`,
		"/html":  "200 OK; URL; text/html; 68 bytes; shown without its markup\n\n# T\n\nOne two\n\nThree\n",
		"/image": "200 OK; URL; image/png; 6 bytes; not text, so it is not shown\n\n",
		"/lie":   "200 OK; URL; text/plain; 3 bytes; not text, so it is not shown\n\n",
		"/none":  "204 No Content; URL; 0 bytes\n\n",
		"/404":   "404 Not Found; URL; text/plain; 19 bytes\n\n404 page not found\n",
		"/big":   "200 OK; URL; text/plain; only the first 1000 bytes were read\n\n" + strings.Repeat("x", 1000),
		"/zip":   "200 OK; URL; text/plain; only the first 1000 bytes were read\n\n" + strings.Repeat("z", 1000),
		"/short": "200 OK; URL; text/plain; the server closed the connection after 4 bytes\n\nhalf",
		"/from":  "200 OK; URL; text/plain; 6 bytes\n\na <b>\n",
	} {
		r := get(t, x, map[string]any{"url": at.String() + path})
		shown := path
		if path == "/from" {
			shown = "/text"
		}
		if diff := cmp.Diff(strings.Replace(want, "URL", at.String()+shown, 1), r.Text()); diff != "" || r.Status != content.StatusOK {
			t.Errorf("%s: %s (-want +got):\n%s", path, r.Status, diff)
		}
	}
	if r := get(t, x, map[string]any{"url": at.String() + "/html", "raw": true}); !strings.Contains(r.Text(), "<script>") {
		t.Errorf("raw: %s", r.Text())
	}
}

func TestTextIsReadInItsCharset(t *testing.T) {
	t.Parallel()
	const mb = "a page of so much plain text that nothing of it tells the charset. "
	at := serve(t, map[string]http.HandlerFunc{
		"/named":   page("text/plain; charset=windows-1252", "Gr\xfc\xdfe \x80"),
		"/html":    page("text/html; charset=ISO-8859-1", "<p>Stra\xdfe"),
		"/meta":    page("text/html", `<meta charset="iso-8859-1"><p>Stra`+"\xdfe"),
		"/old":     page("text/html", "<p>Stra\xdfe"),
		"/late":    page("text/html", "<p>"+strings.Repeat(mb, 30)+"Straße"),
		"/wide":    page("text/plain; charset=utf-16", "\xff\xfea\x00\xdf\x00"),
		"/big":     page("application/json; charset=utf-16be", "\xfe\xff\x00[\x00]"),
		"/mark":    page("application/json", "\xef\xbb\xbf{}"),
		"/japan":   page("text/plain; charset=Shift_JIS", "\x93\xfa\x96\x7b"),
		"/unknown": page("text/plain; charset=klingon", "ok \xdf"),
		"/about":   page("text/plain", `ß: write <meta charset="koi8-r">`),
		"/br": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", "br")
			page("text/plain", "\x0b\x02\x80hello\x03")(w, nil)
		},
	})
	x := fetcher(t, fetch.Options{Hosts: []string{at.Host}, Private: loopback()})
	for path, want := range map[string]string{
		"/named": "Grüße €", "/html": "Straße\n", "/meta": "Straße\n", "/old": "Straße\n",
		"/late": strings.Repeat(mb, 30) + "Straße\n", "/wide": "aß", "/big": "[]", "/mark": "{}", "/japan": "日本",
		"/unknown": "ok \uFFFD", "/about": `ß: write <meta charset="koi8-r">`, "/br": "",
	} {
		r := get(t, x, map[string]any{"url": at.String() + path})
		head, got, _ := strings.Cut(r.Text(), "\n\n")
		if got != want {
			t.Errorf("%s: %q, want %q", path, got, want)
		}
		if path == "/br" && !strings.HasSuffix(head, "; encoded as br, so it is not shown") {
			t.Errorf("%s: %s", path, head)
		}
	}
}

func TestOnlyPublicAddressesAreDialed(t *testing.T) {
	t.Parallel()
	reached := false
	at := serve(t, map[string]http.HandlerFunc{"/": func(http.ResponseWriter, *http.Request) { reached = true }})
	x := fetcher(t, fetch.Options{Hosts: []string{"*:" + at.Port(), "*"}, Timeout: time.Minute})
	for _, host := range []string{
		"127.0.0.1", "localhost", "127.1.2.3", "[::1]", "[::ffff:127.0.0.1]", "0.0.0.0", "[::]", "10.0.0.1", "172.16.0.1", "192.168.1.1",
		"169.254.169.254", "[fe80::1]", "[fd00:ec2::254]", "100.100.100.200", "[64:ff9b::7f00:1]", "[2002:7f00:1::]", "224.0.0.1", "255.255.255.255",
		"198.18.0.1", "[::127.0.0.1]", "192.0.0.192",
	} {
		r := get(t, x, map[string]any{"url": "http://" + host + ":" + at.Port()})
		if r.Code != fetch.CodeAddress && r.Code != fetch.CodeNetwork || r.Status != content.StatusError {
			t.Errorf("%s: %s %q: %s", host, r.Status, r.Code, r.Text())
		}
		if r.Code == fetch.CodeNetwork && !strings.Contains(r.Text(), "no suitable address") && !strings.Contains(r.Text(), "unreachable") {
			t.Errorf("%s was dialled: %s", host, r.Text())
		}
	}
	if reached {
		t.Error("this machine was reached")
	}
}

// TestAllowedNameCannotLeadToThisMachine resolves an allowed name to a private
// address, as DNS rebinding does.
func TestAllowedNameCannotLeadToThisMachine(t *testing.T) {
	t.Parallel()
	at := serve(t, map[string]http.HandlerFunc{"/": page("text/plain", "secret")})
	names := resolver(t, map[string]string{"good.test.": "127.0.0.1", "evil.test.": "127.0.0.1"})
	opts := fetch.Options{Hosts: []string{"*.test:" + at.Port()}, Resolver: names}
	r := get(t, fetcher(t, opts), map[string]any{"url": "http://evil.test:" + at.Port()})
	if r.Code != fetch.CodeAddress || !strings.Contains(r.Text(), "127.0.0.1 is not public") {
		t.Errorf("%q: %s", r.Code, r.Text())
	}
	opts.Private = loopback()
	if r := get(t, fetcher(t, opts), map[string]any{"url": "http://good.test:" + at.Port()}); !strings.Contains(r.Text(), "secret") {
		t.Errorf("allowed: %s", r.Text())
	}
}

func TestRedirectsAreChecked(t *testing.T) {
	t.Parallel()
	var at *url.URL
	to := func(target string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, strings.ReplaceAll(target, "PORT", at.Port()), http.StatusFound)
		}
	}
	at = serve(t, map[string]http.HandlerFunc{
		"/host": to("http://example.com/"), "/scheme": to("file:///etc/passwd"), "/address": to("http://127.0.0.2:PORT/"), "/loop": to("/loop"),
		"/port": to("http://127.0.0.1:1/"),
	})
	x := fetcher(t, fetch.Options{Hosts: []string{at.Host, "127.0.0.2:" + at.Port()}, Private: loopback()})
	for path, want := range map[string]string{
		"/host":    "host_not_allowed: Tool failed: example.com is not an allowed host: allowed are ",
		"/port":    "host_not_allowed: Tool failed: 127.0.0.1:1 is not an allowed host: allowed are " + at.Host + ", 127.0.0.2:" + at.Port() + " (on the default port unless one is given)",
		"/scheme":  "host_not_allowed: Tool failed: file:///etc/passwd is not a web address",
		"/address": "address_not_allowed: Tool failed: its address 127.0.0.2 is not public",
		"/loop":    "network: Tool failed: " + at.Host + ": more than 5 redirects",
	} {
		r := get(t, x, map[string]any{"url": at.String() + path})
		if got := r.Code + ": " + r.Text(); !strings.HasPrefix(got, want) {
			t.Errorf("%s: %q, want %q", path, got, want)
		}
	}
}

func TestHostsMatchExactly(t *testing.T) {
	t.Parallel()
	x := fetcher(t, fetch.Options{
		Hosts: []string{"example.com", "*.example.org", "[2001:db8::1]:8443", "Dot.test.", "bücher.test", "*.xn--mnchen-3ya.test:8080"}, Timeout: time.Nanosecond,
	})
	for address, allowed := range map[string]bool{
		"https://example.com": true, "http://EXAMPLE.com.": true, "https://example.com:8443": false, "https://sub.example.com": false,
		"https://a.b.example.org/x": true, "https://example.org": false, "https://badexample.org": false, "http://example.com.evil.test": false,
		"https://dot.test": true, "https://xn--bcher-kva.test/": true, "https://BÜCHER.test/": true, "http://www.münchen.test:8080": true,
		"https://[2001:db8::1]:8443": true, "https://[2001:DB8:0::1]:8443": true, "https://[2001:db8::1]": false,
	} {
		r := get(t, x, map[string]any{"url": address})
		if got := r.Code != fetch.CodeHost; got != allowed {
			t.Errorf("%s: %q %s", address, r.Code, r.Text())
		}
	}
	for _, address := range []string{"", "example.com", "ftp://example.com", "file:///etc/passwd", "https://me:secret@example.com", "http://", "http://[::1"} {
		if r := get(t, x, map[string]any{"url": address}); r.Code != tool.CodeInvalidArguments {
			t.Errorf("%q: %q %s", address, r.Code, r.Text())
		}
	}
}

func TestMethods(t *testing.T) {
	t.Parallel()
	at := serve(t, map[string]http.HandlerFunc{"/": func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.Header().Set("Content-Type", "text/plain")
		_, _ = fmt.Fprintf(w, "%s %s %s %s", r.Method, r.Header.Get("Content-Type"), r.Header.Get("Accept"), body)
	}})
	reads := fetcher(t, fetch.Options{Hosts: []string{at.Host}, Private: loopback()})
	if reads.Spec().Effects != content.ReadOnly {
		t.Error("a tool that only reads is not declared so")
	}
	for _, in := range []map[string]any{{"url": at.String(), "method": "POST"}, {"url": at.String(), "body": "x"}} {
		if r := get(t, reads, in); r.Code != tool.CodeInvalidArguments {
			t.Errorf("%v: %s", in, r.Text())
		}
	}
	writes := fetcher(t, fetch.Options{Hosts: []string{at.Host}, Private: loopback(), Methods: []string{"GET", "POST"}})
	if writes.Spec().Effects == content.ReadOnly {
		t.Error("a tool that sends is declared read only")
	}
	r := get(t, writes, map[string]any{"url": at.String(), "method": "POST", "body": "{}", "accept": "text/plain"})
	if !strings.HasSuffix(r.Text(), "\n\nPOST application/json text/plain {}") {
		t.Errorf("post: %s", r.Text())
	}
	requests, err := writes.(tool.Proposer).Propose(t.Context(), tool.Call{Input: []byte(`{"url":"https://x.test/y","method":"POST"}`)})
	if err != nil || requests[0].Kind != "network.send" || string(requests[0].Target) != `{"url":"https://x.test/y","method":"POST","host":"x.test"}` {
		t.Errorf("requests = %+v, %v", requests, err)
	}
}

func TestFetchTimesOut(t *testing.T) {
	t.Parallel()
	at := serve(t, map[string]http.HandlerFunc{"/": func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, "begin")
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}})
	x := fetcher(t, fetch.Options{Hosts: []string{at.Host}, Private: loopback(), Timeout: 200 * time.Millisecond})
	if r := get(t, x, map[string]any{"url": at.String()}); r.Code != tool.CodeTimeout {
		t.Errorf("%q: %s", r.Code, r.Text())
	}
}

func TestInvalidOptionsAreErrors(t *testing.T) {
	t.Parallel()
	for want, opts := range map[string]fetch.Options{
		"no host is allowed": {},
		`host "a/b"`:         {Hosts: []string{"a/b"}},
		`host "*.*"`:         {Hosts: []string{"*.*"}},
		`host "http://a.test": write example.com`: {Hosts: []string{"http://a.test"}},
		`host "a.test:http"`:                      {Hosts: []string{"a.test:http"}},
		`host "a.test:99999"`:                     {Hosts: []string{"a.test:99999"}},
		`host "a.test:"`:                          {Hosts: []string{"a.test:"}},
		`host "*.192.0.2.1"`:                      {Hosts: []string{"*.192.0.2.1"}},
		`host "a..test"`:                          {Hosts: []string{"a..test"}},
		`method "TRACE"`:                          {Hosts: []string{"*"}, Methods: []string{"TRACE"}},
	} {
		if _, err := fetch.New(opts); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", opts, err, want)
		}
	}
}

// resolver answers from a table, with a server on a local socket.
func resolver(t *testing.T, table map[string]string) *net.Resolver {
	t.Helper()
	conn, err := new(net.ListenConfig).ListenPacket(t.Context(), "udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		answerAll(conn, table)
	}()
	t.Cleanup(func() {
		_ = conn.Close()
		<-done
	})
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "udp", conn.LocalAddr().String())
	}}
}
