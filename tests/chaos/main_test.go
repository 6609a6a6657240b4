package chaos

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/turnlog/turnlog/embedded"
	"github.com/turnlog/turnlog/internal/testing/clitest"
)

func TestMain(m *testing.M) {
	embedded.PrepareForSynctest()
	clitest.Parallel(5) // the tests mostly wait for servers
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/nats-io/nats-server/v2/server/ats.Register.func1"))
}
