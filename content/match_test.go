package content

import "testing"

func TestAStarStandsForAnyCharacters(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		pattern, name string
		want          bool
	}{
		{"fs_read", "fs_read", true},
		{"fs_read", "fs_reads", false},
		{"", "x", false},
		{"*", "", true},
		{"fs_*", "fs_", true},
		{"fs_*", "shell_fs_", false},
		{"*_read", "fs_read", true},
		{"a*b*c", "a-b-b-c", true},
		{"a*b*c", "a-c", false},
		{"a*a", "a", false},
		{"*a*", "bab", true},
		{"**", "x", true},
	} {
		if got := Matches(tc.pattern, tc.name); got != tc.want {
			t.Errorf("Matches(%q, %q) = %t", tc.pattern, tc.name, got)
		}
	}
}
