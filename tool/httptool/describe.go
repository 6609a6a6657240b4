package httptool

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"go.uber.org/zap"

	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/internal/schema"
	"github.com/turnlog/turnlog/internal/toolname"
	"github.com/turnlog/turnlog/tool"
)

// The limits of a service's description.
const (
	maxDocument = 4 << 20   // bytes of a manifest or document
	maxSpecs    = 256 << 10 // bytes of all descriptions and schemas
)

// offer is what a service offers.
type offer struct {
	tag   string // ETag of the description, with which the service says that it has not changed
	body  []byte
	tools []tool.Tool // sorted
}

// describe asks the service what it offers.
func (s *service) describe(ctx context.Context, last offer) (offer, error) {
	ctx, cancel := context.WithTimeout(ctx, s.all.patience)
	defer cancel()
	now, err := s.read(ctx, last)
	if errors.Is(err, context.DeadlineExceeded) && last.tools != nil && s.calls.Load() > 0 {
		return last, nil // the service may handle only one request at a time
	}
	return now, err
}

func (s *service) read(ctx context.Context, last offer) (offer, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.at.String(), nil)
	if err != nil {
		return offer{}, err //nolint:wrapcheck // it names the URL
	}
	if err := s.sign(req); err != nil {
		return offer{}, err
	}
	req.Header.Set("Accept", "application/json")
	if last.tag != "" {
		req.Header.Set("If-None-Match", last.tag)
	}
	resp, err := s.http.Do(req)
	if err != nil {
		return offer{}, plain(err)
	}
	defer func() { _ = resp.Body.Close() }() // everything needed was read
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxDocument+1))
	switch {
	case err != nil:
		return offer{}, plain(err)
	case resp.StatusCode == http.StatusNotModified:
		return last, nil
	case resp.StatusCode/100 == 3:
		return offer{}, errRedirect
	case resp.StatusCode != http.StatusOK:
		return offer{}, fmt.Errorf("it answers %s", resp.Status)
	case len(body) > maxDocument:
		return offer{}, fmt.Errorf("its description has more than %d MiB", maxDocument>>20)
	case last.tools != nil && bytes.Equal(body, last.body):
		return last, nil
	}
	calls, err := s.parse(body)
	if err != nil {
		return offer{}, err
	}
	return offer{tag: resp.Header.Get("ETag"), body: body, tools: s.compile(calls)}, nil
}

// sign sets the headers that every request has.
func (s *service) sign(req *http.Request) error {
	req.Header.Set("User-Agent", strings.TrimSuffix("turnlog/"+s.all.Version, "/"))
	for name, reference := range s.cfg.Headers {
		value, err := tool.ResolveReference(reference, s.all.Getenv)
		if err != nil {
			return fmt.Errorf("header %s: %w", name, err)
		}
		req.Header.Set(name, value)
	}
	return nil
}

// plain returns the error of a request without its URL, which may hold a secret.
func plain(err error) error {
	if e, ok := errors.AsType[*url.Error](err); ok {
		return e.Err
	}
	return err
}

// parse reads the description of a service: a manifest, or an OpenAPI document.
func (s *service) parse(body []byte) ([]*endpoint, error) {
	var doc document
	if err := schema.CheckJSON(body); err != nil {
		return nil, err
	}
	if err := json.Unmarshal(body, &doc); err != nil {
		return nil, fmt.Errorf("its description is not a JSON object: %w", err)
	}
	if doc.OpenAPI != "" {
		return s.operations(doc, body)
	}
	dec := json.NewDecoder(bytes.NewReader(body))
	dec.DisallowUnknownFields()
	var d tool.Description
	if err := dec.Decode(&d); err != nil {
		return nil, fmt.Errorf("its manifest: %w", err)
	}
	spec, err := d.Spec(s.cfg.Name, s.all.Timeout)
	if err != nil {
		return nil, fmt.Errorf("its manifest: %w", err)
	}
	return []*endpoint{{service: s, spec: spec, method: http.MethodPost, path: s.at, whole: true}}, nil
}

// compile turns endpoints into tools. It omits those that cannot be used.
func (s *service) compile(endpoints []*endpoint) []tool.Tool {
	tools, room := []tool.Tool{}, maxSpecs
	for _, e := range endpoints {
		t, err := tool.Compile(e)
		size := len(e.spec.Name) + len(e.spec.Description) + len(e.spec.InputSchema) + len(e.spec.OutputSchema)
		if err == nil && size > room {
			err = fmt.Errorf("tool %s: its %d bytes of description exceed the limit", e.spec.Name, size)
		}
		if err != nil {
			s.log.Warn("operation of an HTTP tool omitted", zap.Error(err))
			continue
		}
		room -= size
		tools = append(tools, t)
	}
	slices.SortFunc(tools, func(a, b tool.Tool) int { return strings.Compare(a.Spec().Name, b.Spec().Name) })
	return tools
}

// operations lists the operations of an OpenAPI document that can be tools.
func (s *service) operations(doc document, body []byte) ([]*endpoint, error) {
	if !strings.HasPrefix(doc.OpenAPI, "3.") {
		return nil, fmt.Errorf("its OpenAPI document has version %s: version 3 is needed", content.Clip(doc.OpenAPI, 20))
	}
	base, err := s.base(doc)
	if err != nil {
		return nil, err
	}
	tree, err := newTree(body, doc.OpenAPI)
	if err != nil {
		return nil, err
	}
	var found []*endpoint
	var names []string
	for op := range doc.operations() {
		e, err := tree.endpoint(op)
		if err != nil {
			s.log.Warn("operation of an HTTP tool omitted", zap.String("operation", op.String()), zap.Error(err))
			continue
		}
		e.service, e.path = s, base
		found, names = append(found, e), append(names, cmp.Or(op.ID, op.String()))
	}
	var out []*endpoint
	for i, name := range toolname.All(s.cfg.Name+"_", names, len(names)) {
		if found[i].spec, err = found[i].about.Spec(name, s.all.Timeout); err != nil {
			s.log.Warn("operation of an HTTP tool omitted", zap.String("operation", names[i]), zap.Error(err))
			continue
		}
		out = append(out, found[i])
	}
	return out, nil
}

// base returns the URL to which the paths of a document are appended.
func (s *service) base(doc document) (*url.URL, error) {
	server := "/"
	if len(doc.Servers) > 0 {
		server = doc.Servers[0].URL
	}
	at, err := s.at.Parse(server)
	switch {
	case err != nil || strings.Contains(server, "{"):
		return nil, fmt.Errorf("its server %q is not a URL", content.Clip(server, 200))
	case at.Scheme != s.at.Scheme || at.Host != s.at.Host:
		return nil, fmt.Errorf("its server %s://%s is not allowed: requests go only to %s", at.Scheme, at.Host, s.at.Host)
	}
	return at, nil
}
