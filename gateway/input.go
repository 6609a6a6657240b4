package gateway

import (
	"context"
	"errors"
	"io"
	"mime"
	"net/http"
	"os"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"
	"github.com/dustin/go-humanize"

	"github.com/turnlog/turnlog/commands"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/gateway/internal/problem"
	"github.com/turnlog/turnlog/gateway/people"
	"github.com/turnlog/turnlog/session"
)

// file is a file of an input: either inline, or stored with POST /api/files.
type file struct {
	Name string `json:"name" maxLength:"256"`
	MIME string `json:"mime" maxLength:"256" example:"application/pdf"`
	Data []byte `json:"data,omitempty" doc:"the bytes in base64, for small files; otherwise give blob"`
	Blob string `json:"blob,omitempty" pattern:"^[0-9a-f]{64}$" doc:"the digest that POST /api/files returned"`
	Size int64  `json:"size,omitempty" minimum:"0" doc:"the size of the blob in bytes"`
}

func (f file) part() (content.Part, error) {
	switch {
	case (f.Blob == "") == (len(f.Data) == 0):
		return content.Part{}, problem.Unprocessable("bad_file", "file "+f.Name+" needs data or a blob, not both", "give one of them")
	case f.Blob != "":
		return content.BlobPart(f.Name, f.MIME, f.Blob, f.Size), nil
	}
	return content.FilePart(f.Name, f.MIME, f.Data), nil
}

// inputItem returns the user's item with a text and files.
func inputItem(text string, files []file) (content.Item, error) {
	it := content.NewItem(content.User)
	for _, f := range files {
		p, err := f.part()
		if err != nil {
			return it, err
		}
		it.Parts = append(it.Parts, p)
	}
	if strings.TrimSpace(text) == "" && len(files) == 0 {
		return it, problem.Unprocessable(commands.ReasonEmptyInput, "the input is empty", "give text, files or both")
	}
	if text != "" {
		it.Parts = append(it.Parts, content.TextPart(text))
	}
	return it, nil
}

func (g *Gateway) inputRoutes() {
	handle(g, op(http.MethodPost, "/api/sessions/{id}/input", "Send input to a session", http.StatusAccepted, 403, 404, 409, 410, 422), g.sendInput)
	handle(g, op(http.MethodPost, "/api/sessions/{id}/cancel", "Cancel the open turn, or everything", http.StatusOK, 403, 404, 409, 410, 422), g.cancelTurn)
	o := op(http.MethodPost, "/api/files", "Store a file for a later input", http.StatusCreated, 403, 413)
	o.RequestBody = &huma.RequestBody{Required: true, Content: map[string]*huma.MediaType{"application/octet-stream": {Schema: &huma.Schema{Type: "string", Format: "binary"}}}}
	o.MaxBodyBytes, o.BodyReadTimeout = -1, -1
	huma.Register(g.api, o, g.storeFile)
}

type inputIn struct {
	SessionPath
	CommandKey

	Body struct {
		Text   string `json:"text,omitempty"`
		Files  []file `json:"files,omitempty" maxItems:"100"`
		OnBusy string `json:"on_busy,omitempty" enum:"steer,queue,interrupt,reject" default:"steer" doc:"if a turn is open: steer adds the input to it, queue starts the next turn, interrupt cancels it first, reject refuses the input"`
	}
}

// sendInput puts input into the session's inbox. The inbox keeps it even if no node is running.
func (g *Gateway) sendInput(ctx context.Context, in *inputIn) (*acceptedOut, error) {
	s, err := g.drive(ctx, in.ID, "send input to")
	if err != nil {
		return nil, err
	}
	id, err := in.command()
	if err != nil {
		return nil, err
	}
	item, err := inputItem(in.Body.Text, in.Body.Files)
	if err != nil {
		return nil, err
	}
	c := commands.SubmitInput{Items: []content.Item{item}, OnBusy: events.OnBusy(in.Body.OnBusy)}
	if in.Body.OnBusy == "steer" {
		c.OnBusy = events.Steer
	}
	switch {
	case s.state.Handled(id):
		if _, err := g.caused(ctx, s, s, id, c); err != nil {
			return nil, err
		}
	case s.state.Closed:
		return nil, problem.Refusal(&session.InvalidStateError{Reason: commands.ReasonClosed, Detail: "session " + string(s.state.Session) + " is closed"})
	case c.OnBusy == events.Reject: // only a driver can tell whether the session is busy
		return g.ask(ctx, s, CommandKey{id}, c)
	default:
		if err := commands.Validate(c); err != nil {
			return nil, err
		}
		if err := g.clientOf(person(ctx)).Send(ctx, s.state.Session, id, c); err != nil {
			return nil, err
		}
	}
	return &acceptedOut{accepted{s.state.Session, id}}, nil
}

type cancelIn struct {
	SessionPath
	CommandKey

	Body struct {
		Reason string         `json:"reason,omitempty" maxLength:"1000"`
		Turn   content.TurnID `json:"turn,omitempty" doc:"cancel only this turn; without it, the open one"`
		All    bool           `json:"all,omitempty" doc:"cancel everything that the session started, including background calls"`
	}
}

func (g *Gateway) cancelTurn(ctx context.Context, in *cancelIn) (*acceptedOut, error) {
	s, err := g.drive(ctx, in.ID, "cancel")
	if err != nil {
		return nil, err
	}
	c := commands.Cancel{Scope: commands.ScopeTurn, Reason: in.Body.Reason, Turn: in.Body.Turn}
	switch {
	case in.Body.All:
		c.Scope, c.Turn = commands.ScopeSession, ""
	case c.Turn == "" && s.state.Turn != nil: // a late cancel must not end a later turn
		c.Turn = s.state.Turn.ID
	}
	return g.ask(ctx, s, in.CommandKey, c)
}

type fileIn struct {
	Name string `query:"name" maxLength:"256" doc:"the name of the file"`
	MIME string `header:"Content-Type"`
}

// uploadTime limits the time of an upload.
const uploadTime = 10 * time.Minute

// storeFile stores an uploaded file. It buffers the body in a temporary file.
func (g *Gateway) storeFile(ctx context.Context, in *fileIn) (*huma.StreamResponse, error) {
	if person(ctx).Role == people.Viewer {
		return nil, problem.MayNot("store files")
	}
	kind, _, err := mime.ParseMediaType(in.MIME)
	if err != nil {
		kind = "application/octet-stream"
	}
	return &huma.StreamResponse{Body: func(hc huma.Context) {
		r, w := humago.Unwrap(hc)
		stored, err := g.spool(w, r, in.Name, kind)
		answering(w)
		if err != nil {
			g.problemOf(ctx, err).Write(w)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusCreated)
		_, _ = w.Write(jsonOf(stored))
	}}, nil
}

func (g *Gateway) spool(w http.ResponseWriter, r *http.Request, name, kind string) (file, error) {
	if !utf8.ValidString(name) {
		return file{}, problem.New(http.StatusBadRequest, "bad_file", "the name is not UTF-8", "encode the name as UTF-8")
	}
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(uploadTime)) // every connection supports deadlines
	tmp, err := os.CreateTemp("", "turnlog-upload-*")
	if err != nil {
		return file{}, err //nolint:wrapcheck // the error names the file
	}
	defer func() { _ = os.Remove(tmp.Name()) }()
	defer func() { _ = tmp.Close() }()
	size, err := io.Copy(tmp, http.MaxBytesReader(w, r.Body, g.limits.File))
	if _, large := errors.AsType[*http.MaxBytesError](err); large {
		return file{}, problem.New(http.StatusRequestEntityTooLarge, "too_large", "the file has more than "+humanize.IBytes(uint64(g.limits.File)), "send a smaller one: models see files of at most 32 MiB") //nolint:gosec // positive
	}
	if err != nil {
		return file{}, problem.Truncated(http.StatusBadRequest, "the body ended early: "+err.Error())
	}
	if size == 0 {
		return file{}, problem.New(http.StatusBadRequest, "bad_file", "the file is empty", "send its bytes as the body")
	}
	if _, err := tmp.Seek(0, io.SeekStart); err != nil {
		return file{}, err //nolint:wrapcheck // the error names the file
	}
	p, err := g.clientOf(person(r.Context())).StoreFile(r.Context(), name, kind, tmp)
	if err != nil {
		return file{}, err
	}
	id, _ := content.BlobID(p.Media.URI)
	return file{Name: name, MIME: kind, Blob: id, Size: size}, nil
}
