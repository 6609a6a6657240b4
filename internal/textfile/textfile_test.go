package textfile_test

import (
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/turnlog/turnlog/internal/textfile"
)

func TestOnlyTextIsRead(t *testing.T) {
	t.Parallel()
	fsys := fstest.MapFS{
		"text":  {Data: []byte("Grüße\n")},
		"empty": {},
		"full":  {Data: []byte(strings.Repeat("x", textfile.MaxSize))},
		"more":  {Data: []byte(strings.Repeat("x", textfile.MaxSize+1))},
		"bytes": {Data: []byte("\xff")},
		"dir":   {Mode: fs.ModeDir},
	}
	for name, want := range map[string]string{
		"text": "", "empty": "", "full": "",
		"more": "262145 bytes, more than 262144", "bytes": "not UTF-8 text", "dir": "not a regular file", "none": "file does not exist",
	} {
		text, err := textfile.Read(fsys, name)
		switch {
		case want == "" && (err != nil || text != string(fsys[name].Data)):
			t.Errorf("Read(%s) = %d bytes, %v", name, len(text), err)
		case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("Read(%s) = %v, want %q", name, err, want)
		}
	}
}
