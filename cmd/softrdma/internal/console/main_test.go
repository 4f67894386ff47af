package console

import (
	"testing"

	"softrdma/cmd/softrdma/internal/clitest"
)

func TestMain(m *testing.M) { clitest.Main(m) }
