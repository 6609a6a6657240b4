package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// Limits of one list of a server.
const (
	maxPages   = 100
	maxListing = 16 << 20 // bytes of all pages
)

// pageFunc asks for the page at a cursor, and returns its elements, the cursor of the next
// page and the whole answer.
type pageFunc[T any] func(ctx context.Context, cursor string) (page []T, next string, answer any, err error)

// pages lists what a server has. The iterator of the SDK would ask for pages as long as the
// server has more, even if they are empty.
func pages[T any](ctx context.Context, ask pageFunc[T]) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		var none T
		cursor, size := "", 0
		for range maxPages {
			page, next, answer, err := ask(ctx, cursor)
			if err != nil {
				yield(none, err)
				return
			}
			for _, v := range page {
				if !yield(v, nil) {
					return
				}
			}
			raw, _ := json.Marshal(answer) //nolint:errchkjson // it was JSON
			size += len(raw)
			switch {
			case next == "":
				return
			case next == cursor:
				yield(none, errors.New("the server returned the same cursor again"))
				return
			case size > maxListing:
				yield(none, fmt.Errorf("the list has more than %d MiB", maxListing>>20))
				return
			}
			cursor = next
		}
		yield(none, fmt.Errorf("the list has more than %d pages", maxPages))
	}
}

func toolsOf(s *sdk.ClientSession) pageFunc[*sdk.Tool] {
	return func(ctx context.Context, cursor string) ([]*sdk.Tool, string, any, error) {
		r, err := s.ListTools(ctx, &sdk.ListToolsParams{Cursor: cursor})
		if err != nil {
			return nil, "", nil, err //nolint:wrapcheck // the caller explains it
		}
		return r.Tools, r.NextCursor, r, nil
	}
}

func resourcesOf(s *sdk.ClientSession) pageFunc[*sdk.Resource] {
	return func(ctx context.Context, cursor string) ([]*sdk.Resource, string, any, error) {
		r, err := s.ListResources(ctx, &sdk.ListResourcesParams{Cursor: cursor})
		if err != nil {
			return nil, "", nil, err //nolint:wrapcheck // as above
		}
		return r.Resources, r.NextCursor, r, nil
	}
}

func templatesOf(s *sdk.ClientSession) pageFunc[*sdk.ResourceTemplate] {
	return func(ctx context.Context, cursor string) ([]*sdk.ResourceTemplate, string, any, error) {
		r, err := s.ListResourceTemplates(ctx, &sdk.ListResourceTemplatesParams{Cursor: cursor})
		if err != nil {
			return nil, "", nil, err //nolint:wrapcheck // as above
		}
		return r.ResourceTemplates, r.NextCursor, r, nil
	}
}

func promptsOf(s *sdk.ClientSession) pageFunc[*sdk.Prompt] {
	return func(ctx context.Context, cursor string) ([]*sdk.Prompt, string, any, error) {
		r, err := s.ListPrompts(ctx, &sdk.ListPromptsParams{Cursor: cursor})
		if err != nil {
			return nil, "", nil, err //nolint:wrapcheck // as above
		}
		return r.Prompts, r.NextCursor, r, nil
	}
}
