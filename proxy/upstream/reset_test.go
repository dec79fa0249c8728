package upstream

import (
	"errors"
	"io"
	"net"
	"testing"
)

// A connection that the engine resets is no clean end, also of an answer without a
// length, and also when somebody waits: a socket tells of a reset once.
func TestResetIsNoCleanEnd(t *testing.T) {
	for name, head := range map[string]string{
		"without a length": "HTTP/1.1 200 OK\r\n\r\nabc",
		"chunked":          chunked + "3\r\nabc\r\n",
		"with a length":    "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc",
	} {
		for _, waits := range []bool{false, true} {
			read := make(chan struct{})
			e := onSockets(t, func(c *engineConn) {
				c.answer(head, 0)
				<-read
				_ = c.Conn.(*net.TCPConn).SetLinger(0) // makes the closing a reset
			})
			resp, err := e.client().Do(t.Context(), e.request("body"))
			if err != nil {
				t.Fatal(err)
			}
			var got [3]byte
			if _, err := io.ReadFull(resp.Body, got[:]); err != nil || string(got[:]) != "abc" {
				t.Fatalf("%s: got %q %v", name, got, err)
			}
			close(read)
			if waits {
				resp.Body.(*Body).Await()
			}
			if n, err := resp.Body.Read(got[:]); n != 0 || err == nil || errors.Is(err, io.EOF) {
				t.Errorf("%s, waiting %t: got %d bytes and %v, want the reset", name, waits, n, err)
			}
			_ = resp.Body.Close()
		}
	}
}
