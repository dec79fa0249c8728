package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"connectrpc.com/connect/v2"
	"connectrpc.com/connect/v2/connecthttp"
	"connectrpc.com/connect/v2/connectproto"
	"google.golang.org/protobuf/proto"
)

// strictJSON is the JSON of requests that people write by hand: a field that the
// message does not have is a slip, and acting on the default of the field that was meant
// would do something else than was asked. In the binary form, which only programs
// write, unknown fields are let be: they come from a newer client.
type strictJSON struct{ *connectproto.JSONCodec }

// codecs returns the option that makes a handler read JSON strictly.
func codecs() connecthttp.Option {
	json := connectproto.NewJSONCodec()
	json.UnmarshalOptions.DiscardUnknown = false
	return connecthttp.WithCodecs(connectproto.NewBinaryCodec(), strictJSON{json})
}

var _ connect.StableCodec = strictJSON{}

// UnmarshalRead decodes a request; its error names the field and the message.
func (c strictJSON) UnmarshalRead(ctx context.Context, src io.Reader, msg any) error {
	err := c.JSONCodec.UnmarshalRead(ctx, src, msg)
	m, ok := msg.(proto.Message)
	if err == nil || !ok {
		return err
	}
	// The library writes a no-break space at times, so that nobody relies on its words.
	why := strings.TrimPrefix(strings.ReplaceAll(err.Error(), "\u00a0", " "), "proto: ")
	if !strings.Contains(why, "unknown field") {
		return errors.New(why)
	}
	fields := m.ProtoReflect().Descriptor().Fields()
	if fields.Len() == 0 {
		return fmt.Errorf("%s; a %s has no fields", why, m.ProtoReflect().Descriptor().Name())
	}
	names := make([]string, fields.Len())
	for i := range names {
		names[i] = fields.Get(i).JSONName()
	}
	return fmt.Errorf("%s; the fields of a %s are %s", why, m.ProtoReflect().Descriptor().Name(), strings.Join(names, ", "))
}
