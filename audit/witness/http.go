package witness

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"strconv"
	"strings"

	"go.uber.org/zap"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/turnlog/turnlog/audit/headlog"
)

const (
	maxBody   = 256 << 10   // of a request
	maxFile   = 2 * maxBody // which also has the witness's signature
	maxProof  = 63          // lines
	addPath   = "/add-checkpoint"
	sizeType  = "text/x.tlog.size"
	plainText = "text/plain; charset=utf-8"
)

// Handler serves the protocol: POST /add-checkpoint, and GET /<hash of an origin>/checkpoint.
func (w *Witness) Handler(log *zap.Logger) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST "+addPath, func(out http.ResponseWriter, r *http.Request) {
		line, err := w.add(http.MaxBytesReader(out, r.Body, maxBody))
		if err == nil {
			answer(out, http.StatusOK, plainText, line)
			return
		}
		code := status(err)
		if size, ok := errors.AsType[*SizeError](err); ok {
			answer(out, code, sizeType, fmt.Appendf(nil, "%d\n", size.Size))
			return
		}
		switch {
		case errors.Is(err, ErrInconsistent):
			log.Error("a log was rewritten", zap.Error(err)) // or the proof is a wrong one
		case code == http.StatusInternalServerError:
			log.Error("checkpoint not cosigned", zap.Error(err))
			err = errInternal
		default:
			log.Warn("checkpoint not cosigned", zap.Error(err))
		}
		answer(out, code, plainText, []byte(err.Error()+"\n"))
	})
	mux.HandleFunc("GET /{origin}/checkpoint", func(out http.ResponseWriter, r *http.Request) {
		for origin := range w.logs {
			if originHash(origin) != r.PathValue("origin") {
				continue
			}
			_, signed, err := w.Last(origin)
			switch {
			case err != nil:
				log.Error("last checkpoint not read", zap.Error(err))
				answer(out, http.StatusInternalServerError, plainText, []byte(errInternal.Error()+"\n"))
				return
			case signed != nil:
				answer(out, http.StatusOK, plainText, signed)
				return
			}
		}
		answer(out, http.StatusNotFound, plainText, []byte("no checkpoint of this log was cosigned\n"))
	})
	return mux
}

func answer(out http.ResponseWriter, code int, kind string, body []byte) {
	out.Header().Set("Content-Type", kind)
	out.WriteHeader(code)
	_, _ = out.Write(body) // the client may be gone
}

// status returns the status that the protocol has for an error.
func status(err error) int {
	_, conflict := errors.AsType[*SizeError](err)
	switch {
	case conflict:
		return http.StatusConflict
	case errors.Is(err, ErrUnknown):
		return http.StatusNotFound
	case errors.Is(err, ErrUnsigned):
		return http.StatusForbidden
	case errors.Is(err, ErrInconsistent):
		return http.StatusUnprocessableEntity
	case errors.Is(err, ErrOld), errors.Is(err, errRequest), errors.Is(err, headlog.ErrBadCheckpoint):
		return http.StatusBadRequest
	}
	return http.StatusInternalServerError
}

var errRequest = errors.New("bad request")

// errInternal is what clients see instead of errors that name files of the witness.
var errInternal = errors.New("the witness cannot use its directory, see its log")

// add reads a request and returns the signature line.
func (w *Witness) add(body io.Reader) ([]byte, error) {
	raw, err := io.ReadAll(body)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errRequest, err)
	}
	head, signed, ok := bytes.Cut(raw, []byte("\n\n"))
	lines := strings.Split(string(head), "\n")
	number, isOld := strings.CutPrefix(lines[0], "old ")
	old, err := strconv.ParseInt(number, 10, 64)
	if !ok || !isOld || err != nil || old < 0 || strconv.FormatInt(old, 10) != number || len(lines)-1 > maxProof {
		return nil, fmt.Errorf("%w: it does not begin with \"old SIZE\", at most %d hashes and an empty line", errRequest, maxProof)
	}
	proof, err := parseHashes(lines[1:])
	if err != nil {
		return nil, err
	}
	return w.Add(old, proof, signed)
}

func parseHashes(lines []string) (out tlog.TreeProof, err error) {
	for _, line := range lines {
		h, err := base64.StdEncoding.Strict().DecodeString(line)
		if err != nil || len(h) != tlog.HashSize {
			return nil, fmt.Errorf("%w: %.60q is not the base64 of a hash", errRequest, line)
		}
		out = append(out, tlog.Hash(h))
	}
	return out, nil
}

// request returns the body of a request.
func request(old int64, proof tlog.TreeProof, signed []byte) []byte {
	out := fmt.Appendf(nil, "old %d\n", old)
	for _, h := range proof {
		out = fmt.Appendf(out, "%s\n", base64.StdEncoding.EncodeToString(h[:]))
	}
	return append(append(out, '\n'), signed...)
}

// parseSize parses the answer that names the size of the last checkpoint.
func parseSize(body []byte) (int64, error) {
	text, ok := strings.CutSuffix(string(body), "\n")
	size, err := strconv.ParseUint(text, 10, 63)
	if !ok || err != nil || size > math.MaxInt64 {
		return 0, fmt.Errorf("the witness answered with the size %.60q", body)
	}
	return int64(size), nil
}
