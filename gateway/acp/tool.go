package acp

import (
	"cmp"
	"encoding/json"
	"path/filepath"
	"strings"

	sdk "github.com/coder/acp-go-sdk"

	"github.com/turnlog/turnlog/client/report"
	"github.com/turnlog/turnlog/content"
	"github.com/turnlog/turnlog/events"
	"github.com/turnlog/turnlog/tool/fs"
)

// kindOf returns the kind of a tool, which editors show as an icon.
func kindOf(tool string) sdk.ToolKind {
	switch tool {
	case "fs_read_file", "output_read", "skill_activate":
		return sdk.ToolKindRead
	case "fs_list_directory", "fs_find", "fs_search", "fs_count":
		return sdk.ToolKindSearch
	case "fs_write_file", "fs_replace_in_file", "fs_patch":
		return sdk.ToolKindEdit
	case "fs_delete":
		return sdk.ToolKindDelete
	case "shell_exec":
		return sdk.ToolKindExecute
	case "http_fetch":
		return sdk.ToolKindFetch
	}
	return sdk.ToolKindOther
}

// view is how an editor shows a call.
type view struct {
	tool, title string
	input       any
	locations   []sdk.ToolCallLocation
	diffs       []sdk.ToolCallContent
}

// maxTitle bounds what a title says about the arguments, in bytes.
const maxTitle = 120

// viewOf returns the view of a call. Paths in its arguments are relative to the folder.
func viewOf(tool, input, folder string) view {
	var args struct {
		Path    string   `json:"path"`
		Line    int      `json:"first_line"`
		Content string   `json:"content"`
		Old     string   `json:"old"`
		New     string   `json:"new"`
		Patch   string   `json:"patch"`
		Argv    []string `json:"argv"`
		Script  string   `json:"script"`
		Glob    string   `json:"glob"`
		Pattern string   `json:"pattern"`
		URL     string   `json:"url"`
	}
	v := view{tool: tool, title: tool, input: jsonOr(input)}
	if kindOf(tool) == sdk.ToolKindOther || json.Unmarshal([]byte(input), &args) != nil {
		return v
	}
	at := func(path string, line int) string {
		if !filepath.IsAbs(path) {
			path = filepath.Join(folder, path)
		}
		l := sdk.ToolCallLocation{Path: path}
		if line > 0 {
			l.Line = new(line)
		}
		v.locations = append(v.locations, l)
		return path
	}
	about := cmp.Or(strings.Join(args.Argv, " "), args.Script, args.Pattern, args.Glob, args.URL, args.Path)
	if args.Path != "" {
		path := at(args.Path, args.Line)
		switch tool {
		case "fs_write_file":
			v.diffs = append(v.diffs, sdk.ToolDiffContent(path, args.Content))
		case "fs_replace_in_file":
			v.diffs = append(v.diffs, sdk.ToolDiffContent(path, args.New, args.Old))
		}
	}
	if tool == "fs_patch" {
		changes, _ := fs.Changes(args.Patch) // the tool says what is wrong with it
		var names []string
		for _, c := range changes {
			path := at(c.Path, 0)
			names = append(names, c.Path)
			for _, e := range c.Edits {
				d := sdk.ToolDiffContent(path, e.New, e.Old)
				if c.Created {
					d = sdk.ToolDiffContent(path, e.New)
				}
				v.diffs = append(v.diffs, d)
			}
		}
		about = strings.Join(names, ", ")
	}
	if line, _, _ := strings.Cut(strings.TrimSpace(about), "\n"); line != "" {
		v.title += " " + content.Clip(line, maxTitle)
	}
	return v
}

// describe sets what an update says about the call.
func (v view) describe(u *sdk.SessionToolCallUpdate) {
	u.Title, u.RawInput, u.Locations, u.Content = new(v.title), v.input, v.locations, v.diffs
}

// The options of a question.
const (
	allowOnce   sdk.PermissionOptionId = "allow_once"
	allowAlways sdk.PermissionOptionId = "allow_always"
	rejectOnce  sdk.PermissionOptionId = "reject_once"
)

// questionOf returns the request that asks about an approval.
func questionOf(id content.SessionID, a events.Approval, folder string) sdk.RequestPermissionRequest {
	v := viewOf(a.Tool, string(a.Input), folder)
	r := sdk.RequestPermissionRequest{
		SessionId: sdk.SessionId(id),
		ToolCall: sdk.ToolCallUpdate{
			ToolCallId: sdk.ToolCallId(report.PlaceOf(content.CallID(a.ID))), Title: new(v.title), Kind: new(kindOf(a.Tool)), Status: new(sdk.ToolCallStatusPending),
			RawInput: v.input, Locations: v.locations, Content: append([]sdk.ToolCallContent{sdk.ToolContent(sdk.TextBlock(report.QuestionOf(a)))}, v.diffs...),
		},
		Options: []sdk.PermissionOption{{OptionId: allowOnce, Kind: sdk.PermissionOptionKindAllowOnce, Name: "Allow once"}},
	}
	if covers := report.Covers(a); covers != "" {
		r.Options = append(r.Options, sdk.PermissionOption{OptionId: allowAlways, Kind: sdk.PermissionOptionKindAllowAlways, Name: "Always allow " + covers})
	}
	r.Options = append(r.Options, sdk.PermissionOption{OptionId: rejectOnce, Kind: sdk.PermissionOptionKindRejectOnce, Name: "Reject"})
	return r
}
