package content

import "strings"

// denied begins the text of the result of a call that was denied.
const denied = "Permission denied: "

// DenialText is the text of the result of a call that was denied.
func DenialText(reason string) string { return denied + reason }

// DenialReason is why a call was denied, by the text of its result.
func (r ToolResult) DenialReason() string { return strings.TrimPrefix(r.Text(), denied) }
