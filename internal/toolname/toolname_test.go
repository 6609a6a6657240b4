package toolname

import (
	"strings"
	"testing"
)

func TestToolNamesAreValidAndUnique(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 70)
	given := []string{"plain", "a.b", "a_b", "c.d", "c/d", "", "über", long + "1", long + "2", "read_resource", "read_resource"}
	got := All("mcp_srv_", given, 10)
	want := []string{
		"mcp_srv_plain", "mcp_srv_a_b_", "mcp_srv_a_b", "mcp_srv_c_d_", "mcp_srv_c_d_", "mcp_srv__", "mcp_srv__ber",
		"mcp_srv_xxx", "mcp_srv_xxx", "mcp_srv_read_resource", "mcp_srv_read_resource_",
	}
	seen := make(map[string]bool)
	for i, name := range got {
		hashed := strings.HasSuffix(want[i], "_") && want[i] != "mcp_srv__" || strings.HasSuffix(want[i], "xxx")
		if !strings.HasPrefix(name, want[i]) || !hashed && name != want[i] || len(name) > 64 || seen[name] || sanitized(name) != name {
			t.Errorf("%q is called %q, want %q", given[i], name, want[i])
		}
		seen[name] = true
	}
	// Neither the order nor other names matter.
	if other := All("mcp_srv_", []string{"c/d", "c.d", "a_b", "a.b"}, 4); other[0] != got[4] || other[1] != got[3] || other[2] != got[2] || other[3] != got[1] {
		t.Errorf("in another order: %q, before: %q", other, got)
	}
}
