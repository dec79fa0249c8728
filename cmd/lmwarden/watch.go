package main

import (
	"bytes"
	"context"
	"errors"
	"io"

	"google.golang.org/protobuf/proto"
)

// receiver is a server stream of a generated client.
type receiver[M any] interface {
	Receive() (M, error)
	Close() error
}

// receive hands on each message of a stream until its end. An interruption is the
// proper end of a watch.
func receive[M any](ctx context.Context, stream receiver[M], each func(M) error) error {
	defer stream.Close() //nolint:errcheck // nothing is sent any more
	for {
		m, err := stream.Receive()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case ctx.Err() != nil:
			return nil
		case err != nil:
			return err
		}
		if err := each(m); err != nil {
			return err
		}
	}
}

// redraw prints a new state in the place of the last one on a terminal, and below it
// elsewhere.
func (a *app) redraw(m proto.Message, table func(io.Writer)) error {
	return a.showLine(m, func(w io.Writer) {
		var b bytes.Buffer
		table(&b)
		if isTerminal(a.out) {
			_, _ = io.WriteString(w, "\x1b[H\x1b[2J")
		} else {
			b.WriteByte('\n')
		}
		_, _ = b.WriteTo(w)
	})
}
