// Package parallel runs more tests at once than there are processors. It is apart from package natstest, since most of the
// build time of a test that needs no server would be to link one.
package parallel

import (
	"flag"
	"strconv"
)

// Tests sets how many tests run at once, unless the command line does. It is for TestMain of a
// package whose tests mostly wait: for processes, clusters or sessions.
func Tests(n int) {
	flag.Parse()
	if f := flag.Lookup("test.parallel"); f.Value.String() == f.DefValue {
		_ = f.Value.Set(strconv.Itoa(n)) // an int is a valid value
	}
}
