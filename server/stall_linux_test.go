package server

import (
	"errors"
	"net"
	"syscall"
	"testing"
	"time"
)

// TestClientThatReadsNothingIsCut writes to a connection whose other end never reads,
// without any deadline: the kernel ends it.
func TestClientThatReadsNothingIsCut(t *testing.T) {
	const limit = time.Second
	lc := net.ListenConfig{Control: limitStalls(limit)}
	l, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	client, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	conn, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.SetWriteDeadline(time.Now().Add(30 * time.Second)); err != nil { // ends a test that fails
		t.Fatal(err)
	}
	began, piece := time.Now(), make([]byte, 64<<10)
	for err == nil {
		_, err = conn.Write(piece)
	}
	if !errors.Is(err, syscall.ETIMEDOUT) {
		t.Errorf("the write ended with %v, want the kernel's time-out", err)
	}
	if took := time.Since(began); took < limit/2 || took > 25*time.Second {
		t.Errorf("cut after %v, want after %v", took, limit)
	}
}
