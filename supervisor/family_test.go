package supervisor

import (
	"os/exec"
	"syscall"
	"testing"
	"time"
)

// An engine's child that made a session of its own and whose parents are long dead, as
// a killed daemon leaves it, is told by nothing but the token in its environment.
func TestTheTokenAloneTellsAnOrphan(t *testing.T) {
	const token = "LMWARDEN_REPLICA=m/0/7/only-the-token-tells"
	sleeper := func(env ...string) *exec.Cmd {
		cmd := exec.CommandContext(t.Context(), "sleep", "600")
		cmd.Env = env
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		})
		return cmd
	}
	orphan, stranger := sleeper(token), sleeper(token+"-of-another")

	ended := make(chan error, 1)
	go func() { ended <- orphan.Wait() }()
	// No root, so no session and no descent: only the environment is left.
	if err := newFamily(0, 0, token).end(t.Context(), 5*time.Second, 5*time.Second); err != nil {
		t.Fatalf("ending the orphan: %v", err)
	}
	select {
	case <-ended:
	case <-time.After(10 * time.Second):
		t.Error("the orphan goes on")
	}
	if now, err := readProcess(stranger.Process.Pid); err != nil || now.state == 'Z' {
		t.Errorf("a process with another token was ended: %v, state %c", err, now.state)
	}
}
