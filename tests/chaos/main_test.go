package chaos

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/turnlog/turnlog/embedded"
	"github.com/turnlog/turnlog/internal/testing/natstest"
	"github.com/turnlog/turnlog/internal/testing/parallel"
	"github.com/turnlog/turnlog/internal/testing/ramdisk"
)

func TestMain(m *testing.M) {
	natstest.CollectRarely()
	ramdisk.Use()
	embedded.PrepareForSynctest()
	parallel.Tests(5) // the tests mostly wait for servers
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/nats-io/nats-server/v2/server/ats.Register.func1"))
}
