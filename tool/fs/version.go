package fs

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"hash"
	"io"
	"io/fs"

	"github.com/turnlog/turnlog/tool"
)

// A version names the content of a file. It is computed from the content alone, so
// whoever has read a file can prove it to any worker, and no worker has to remember
// who has read what.

// versionBytes is how much of the digest a version shows: enough that nobody meets
// one by chance, and little to copy.
const versionBytes = 8

func newSum() hash.Hash { return sha256.New() }

func versionIn(sum hash.Hash) string { return hex.EncodeToString(sum.Sum(nil)[:versionBytes]) }

func versionOf(content []byte) string {
	sum := newSum()
	_, _ = sum.Write(content) // never fails
	return versionIn(sum)
}

// expect checks, where files have to be read before they are written, that a file
// which is there is still the one that was read. The caller holds d.mu, so no call of
// this process comes in between; another process may.
func (d *dir) expect(name, version string) error {
	if !d.readFirst {
		return nil
	}
	now, err := d.version(name)
	switch {
	case errors.Is(err, fs.ErrNotExist) && version == "":
		return nil
	case errors.Is(err, fs.ErrNotExist):
		return tool.Failure(CodeChanged, "%s is not there any more: to write it anew leave version out. Nothing was changed.", show(name))
	case err != nil:
		return d.explain(name, err)
	case version == "":
		return tool.Failure(CodeUnread, "%s exists: read it with fs_read_file first, then give the version that the answer names. Nothing was changed.", show(name))
	case version != now:
		return tool.Failure(CodeChanged, "%s is not at version %s any more: read it with fs_read_file again, and give the version that the answer names. Nothing was changed.",
			show(name), show(version))
	}
	return nil
}

func (d *dir) version(name string) (string, error) {
	f, err := d.Open(name)
	if err != nil {
		return "", err //nolint:wrapcheck // expect explains it
	}
	defer func() { _ = f.Close() }() // nothing was written
	sum := newSum()
	if _, err := io.Copy(sum, f); err != nil {
		return "", err //nolint:wrapcheck // expect explains it
	}
	return versionIn(sum), nil
}

// versioned adds to an answer which version the file has now, for the next edit.
func (d *dir) versioned(content []byte) string {
	if !d.readFirst {
		return ""
	}
	return "; version " + versionOf(content)
}
