package vllmd

import (
	"os"
	"testing"
)

// asProgram in the environment makes the test binary behave as the program itself, so
// that tests have real processes without a build of their own.
const asProgram = "LMWARDEN_SIM_TEST_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		os.Exit(Main(os.Args[1:], os.Stdout, os.Stderr))
	}
	os.Exit(m.Run())
}
