package chaos

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/turnlog/turnlog/internal/testing/clitest"
)

func TestMain(m *testing.M) {
	clitest.Parallel(5) // the tests mostly wait for servers
	goleak.VerifyTestMain(m)
}
