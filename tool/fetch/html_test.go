package fetch

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestTextOfPages(t *testing.T) {
	t.Parallel()
	for page, want := range map[string]string{
		"":      "\n",
		"plain": "plain\n",
		"<head><title>A &amp; B</title><style>x{}</style><body><h1>Head</h1>one<br>two<p>three": "# A & B\n\n# Head\n\none\ntwo\n\nthree\n",
		"<ul><li>a<li><b>b</b> c</ul>end":                                               "- a\n- b c\n\nend\n",
		"<p>see <a href=/x>this</a>, <a href='#top'>up</a> <a href=javascript:x>js</a>": "see this (/x), up js\n",
		"<table><tr><td>1<td>2<tr><td>3</table>":                                        "1 2\n3\n",
		"<pre>a\n  b</pre>c":                                                            "a\n  b\n\nc\n",
		"a<script>1<2</script>b<svg><text>no</text></svg>c":                             "abc\n",
		"<noscript><p>no</noscript>yes":                                                 "yes\n",
		"<img alt='a cat' src=x> <!-- no --> there":                                     "[a cat] there\n",
		"</p></script></svg>still here":                                                 "still here\n",
		"caf\xe9":                                                                       "caf\uFFFD\n",
		"<div>a</div><div>b</div>":                                                      "a\nb\n",
		"<p>un<b>bro</b>ken and <i> loose </i> ends":                                    "unbroken and loose ends\n",
	} {
		if diff := cmp.Diff(want, textOf([]byte(page))); diff != "" {
			t.Errorf("%q (-want +got):\n%s", page, diff)
		}
	}
	if deep := textOf([]byte(strings.Repeat("<div>", 200_000) + "down")); deep != "down\n" {
		t.Errorf("deep: %.40q", deep)
	}
}

func FuzzTextOf(f *testing.F) {
	f.Add("<title>x<p><a href=y>z</a><pre>\n</pre>")
	f.Fuzz(func(_ *testing.T, page string) { textOf([]byte(page)) })
}
