package keys

import (
	"crypto/ed25519"
	"crypto/sha256"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nkeys"
	"golang.org/x/mod/sumdb/note"

	"github.com/turnlog/turnlog/content"
)

// ErrBadDirectory is returned for text that is not a directory of keys, or that the root did not sign.
var ErrBadDirectory = errors.New("invalid directory of keys")

// ErrRolledBack is returned for a directory that is older than one seen before. Keep the newer one.
var ErrRolledBack = errors.New("directory of keys was rolled back")

const (
	purpose = "turnlog-keys/v1" // the first line of a directory

	// Begins is the prefix of each directory.
	Begins = purpose + "\n"

	// MaxDirectory is the size limit of a directory, in bytes.
	MaxDirectory = 512 << 10
)

// Note returns the key as a signer of notes, in the form of golang.org/x/mod/sumdb/note, under a name.
func (s *Signer) Note(name string) (note.Signer, error) {
	v, err := verifierOf(name, s.private.Public().(ed25519.PublicKey)) //nolint:forcetypeassert // of this package
	if err != nil {
		return nil, err
	}
	return noteSigner{v, s.private}, nil
}

// VerifierKey returns the public key in the form of notes, under a name.
func (s *Signer) VerifierKey(name string) (string, error) {
	text, err := note.NewEd25519VerifierKey(name, s.private.Public().(ed25519.PublicKey)) //nolint:forcetypeassert // of this package
	if err != nil {
		return "", fmt.Errorf("verifier %s: %w", name, err)
	}
	return text, nil
}

type noteSigner struct {
	note.Verifier

	private ed25519.PrivateKey
}

// Sign signs a note.
func (s noteSigner) Sign(text []byte) ([]byte, error) { return ed25519.Sign(s.private, text), nil }

func verifierOf(name string, public ed25519.PublicKey) (note.Verifier, error) {
	text, err := note.NewEd25519VerifierKey(name, public)
	if err != nil {
		return nil, fmt.Errorf("verifier %s: %w", name, err)
	}
	v, err := note.NewVerifier(text)
	if err != nil {
		return nil, fmt.Errorf("verifier %s: %w", name, err)
	}
	return v, nil
}

// noteName is the name under which a root signs directories.
const noteName = "turnlog-keys"

// Sign returns the directory as a note that the root signed. It checks the directory first.
func (d *Directory) Sign(root *Signer) ([]byte, error) {
	if err := d.index(); err != nil {
		return nil, err
	}
	signer, err := root.Note(noteName)
	if err != nil {
		return nil, err
	}
	signed, err := note.Sign(&note.Note{Text: d.text()}, signer)
	switch {
	case err != nil:
		return nil, fmt.Errorf("sign directory of keys: %w", err)
	case len(signed) > MaxDirectory:
		return nil, fmt.Errorf("%w: %d bytes, at most %d", ErrBadDirectory, len(signed), MaxDirectory)
	}
	return signed, nil
}

// Open reads a directory that the root with a public key signed. It returns ErrBadDirectory for anything
// else, and ErrBadKey if root is not the public key of a root.
func Open(signed []byte, root string) (*Directory, error) {
	public, err := decodePublic(nkeys.PrefixByteOperator, root)
	if err != nil {
		return nil, err
	}
	v, err := verifierOf(noteName, public)
	if err != nil {
		return nil, err
	}
	if len(signed) > MaxDirectory {
		return nil, fmt.Errorf("%w: more than %d bytes", ErrBadDirectory, MaxDirectory)
	}
	n, err := note.Open(signed, note.VerifierList(v))
	_, unsigned := errors.AsType[*note.UnverifiedNoteError](err)
	_, changed := errors.AsType[*note.InvalidSignatureError](err)
	switch {
	case unsigned:
		return nil, fmt.Errorf("%w: the root %s did not sign it", ErrBadDirectory, root)
	case changed:
		return nil, fmt.Errorf("%w: it was changed after the root %s signed it", ErrBadDirectory, root)
	case err != nil:
		return nil, fmt.Errorf("%w: %w", ErrBadDirectory, err)
	}
	return readDirectory(n.Text)
}

// Peek reads a directory without the root's key, so it may be made up. It returns ErrBadDirectory for
// anything else.
func Peek(signed []byte) (*Directory, error) {
	_, err := note.Open(signed, note.VerifierList())
	unsigned, ok := errors.AsType[*note.UnverifiedNoteError](err)
	if !ok || len(signed) > MaxDirectory {
		return nil, fmt.Errorf("%w: %w", ErrBadDirectory, err)
	}
	return readDirectory(unsigned.Note.Text)
}

func readDirectory(text string) (*Directory, error) {
	d, err := parseText(text)
	if err == nil {
		err = d.index()
	}
	if err == nil && d.text() != text {
		err = fmt.Errorf("%w: it is not in the canonical format of this release", ErrBadDirectory)
	}
	if err != nil {
		return nil, err
	}
	return d, nil
}

// Digest returns the SHA-256 of the text that the root signs.
func (d *Directory) Digest() [sha256.Size]byte { return sha256.Sum256([]byte(d.text())) }

// text is the canonical text of a directory.
func (d *Directory) text() string {
	var b strings.Builder
	line := func(format string, args ...any) { _, _ = fmt.Fprintf(&b, format+"\n", args...) } // it never fails
	line("%s", purpose)
	line("cell %s", d.Cell)
	line("version %d", d.Version)
	line("at %s", stamp(d.At))
	for _, q := range d.Required {
		line("require %s from %s", q.Role, stamp(q.From))
	}
	for _, k := range d.Keys {
		line("key %s %s %s from %s", k.Public, joined(k.Roles, "+"), k.Name, stamp(k.From))
		if r := k.Revoked; r != nil {
			when := stamp(r.At)
			if r.Size != 0 {
				when += fmt.Sprintf(" %s %d %s", atSize, r.Size, r.Log)
			}
			line("%s %s %s", r, when, strconv.Quote(r.Reason))
		}
	}
	return b.String()
}

// stamp formats a time exactly. Rounded down, a requirement would cover earlier entries of the same second.
func stamp(t content.Time) string { return t.Std().UTC().Format(time.RFC3339Nano) }

// parseText reads the result of text. Its caller compares, so it accepts more than that.
func parseText(text string) (*Directory, error) {
	d := &Directory{}
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	if lines[0] != purpose {
		return nil, fmt.Errorf("%w: the first line is %q, want %q", ErrBadDirectory, content.Clip(lines[0], 80), purpose)
	}
	for n, l := range lines[1:] {
		if err := d.parseLine(l); err != nil {
			return nil, fmt.Errorf("%w: line %d: %w", ErrBadDirectory, n+2, err)
		}
	}
	return d, nil
}

// atSize precedes the size of the log at which a key was revoked.
const atSize = "size"

var errLine = errors.New("unknown form")

func (d *Directory) parseLine(line string) (err error) {
	word, rest, _ := strings.Cut(line, " ")
	f := strings.Fields(rest)
	switch {
	case word == "cell" && len(f) == 1:
		d.Cell = f[0]
	case word == "version" && len(f) == 1:
		d.Version, err = strconv.ParseUint(f[0], 10, 64)
	case word == "at" && len(f) == 1:
		d.At, err = parseStamp(f[0])
	case word == "require" && len(f) == 3:
		var q Requirement
		if q.From, err = parseStamp(f[2]); err == nil {
			var roles []Role
			if roles, err = ParseRoles(f[0]); err == nil {
				q.Role = roles[0]
			}
		}
		d.Required = append(d.Required, q)
	case word == "key" && len(f) == 5:
		k := Key{Public: f[0], Name: f[2]}
		if k.Roles, err = ParseRoles(f[1]); err == nil {
			k.From, err = parseStamp(f[4])
		}
		d.Keys = append(d.Keys, k)
	case (word == retired || word == stolen) && len(f) >= 2 && len(d.Keys) > 0:
		r := &Revocation{Stolen: word == stolen}
		if r.At, err = parseStamp(f[0]); err == nil {
			_, quoted, _ := strings.Cut(rest, " ")
			if of, ok := strings.CutPrefix(quoted, atSize+" "); ok {
				of, quoted, _ = strings.Cut(of, " ")
				r.Log, quoted, _ = strings.Cut(quoted, " ")
				if r.Size, err = strconv.ParseInt(of, 10, 64); err != nil || r.Size <= 0 {
					return errLine
				}
			}
			if r.Reason, err = strconv.Unquote(quoted); err != nil {
				return errLine
			}
		}
		d.Keys[len(d.Keys)-1].Revoked = r
	default:
		return errLine
	}
	return err //nolint:wrapcheck // the caller says which line it is
}

func parseStamp(text string) (content.Time, error) {
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return 0, fmt.Errorf("time %q: use a form like 2026-11-25T15:04:05Z", text)
	}
	return content.TimeOf(t), nil
}
