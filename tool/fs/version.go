package fs

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"hash"
	"io"

	"github.com/turnlog/turnlog/tool"
)

// A version identifies the content of a file. It is computed from the content alone,
// so a caller can prove to any worker that it has read the file, and no worker keeps a
// record.

// versionBytes is how many bytes of the digest a version shows: too many to guess, and few enough to
// copy.
const versionBytes = 8

func versionIn(sum hash.Hash) string { return hex.EncodeToString(sum.Sum(nil)[:versionBytes]) }

// versioned returns the note that names a version, if changes need it.
func (d *dir) versioned(sum hash.Hash) string {
	if !d.readFirst {
		return ""
	}
	return "; version " + versionIn(sum)
}

func sumOf(content string) hash.Hash {
	sum := sha256.New()
	_, _ = io.WriteString(sum, content) // never fails
	return sum
}

// expect checks, if files must be read before they are changed, that an existing file
// still has the version that was read. The caller holds d.mu, which keeps out other
// calls of this process, but not other processes.
func (d *dir) expect(ctx context.Context, f file, version string) error {
	switch {
	case !d.readFirst || !f.exists && version == "":
		return nil
	case !f.exists:
		return tool.Failure(CodeChanged, "%s no longer exists: to create it, leave version out. Nothing was changed.", show(f.name))
	case version == "":
		return tool.Failure(CodeUnread, "%s exists: read it with fs_read_file first, then pass the version that it returns. Nothing was changed.", show(f.name))
	}
	switch now, err := d.version(ctx, f.name); {
	case err != nil:
		return err
	case version != now:
		return tool.Failure(CodeChanged, "%s is no longer at version %s: read it again with fs_read_file and pass the version that it returns. Nothing was changed.",
			show(f.name), show(version))
	}
	return nil
}

func (d *dir) version(ctx context.Context, name string) (string, error) {
	f, _, err := d.open(name)
	if err != nil {
		return "", err
	}
	defer func() { _ = f.Close() }() // nothing was written
	sum := sha256.New()
	if _, err := io.Copy(sum, &source{ctx: ctx, r: f}); err != nil {
		return "", d.explain(name, err)
	}
	return versionIn(sum), nil
}
