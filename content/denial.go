package content

import "strings"

// denied is the prefix of the result of a denied call.
const denied = "Permission denied: "

// DenialText returns the text of the result of a denied call.
func DenialText(reason string) string { return denied + reason }

// DenialReason returns why a call was denied, from the text of its result.
func (r ToolResult) DenialReason() string { return strings.TrimPrefix(r.Text(), denied) }
