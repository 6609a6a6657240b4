package exec

// ParseManifest exposes the parser to the fuzz test.
func ParseManifest(data []byte) error {
	_, err := parseManifest("m.yaml", data)
	return err
}
