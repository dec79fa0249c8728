package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"connectrpc.com/connect/v2"
	"github.com/spf13/cobra"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"

	lmwardenv1 "github.com/lmwarden/lmwarden/gen/lmwarden/v1"
)

func (a *app) apiCommand() *cobra.Command {
	var data string
	c := &cobra.Command{
		Use:   "api [SERVICE.METHOD] [-d JSON|-d @FILE|-d -]",
		Short: "Call any method of the API, JSON in and out; without one list them all",
		Long:  "Call any method of the API. The request is JSON, given as it is, from a file (@FILE)\nor from standard input (-); without it the request is empty. The answer is one line\nof JSON, of a stream one line per message.",
		Example: "  lmwarden api RoutingService.GetRouting -d '{\"model\":\"qwen3-4b\"}'\n" +
			"  lmwarden api SystemService.WatchEvents",
		Args: cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) == 0 {
				return a.listMethods()
			}
			method, err := findMethod(args[0])
			if err != nil {
				return err
			}
			req, err := a.readRequest(method.Input(), data)
			if err != nil {
				return err
			}
			return a.call(c.Context(), method, req)
		},
	}
	c.Flags().StringVarP(&data, "data", "d", "", "the request: JSON, @FILE or - for standard input")
	return c
}

// methods returns all methods of the API, by service and in the order of its definition.
func methods() []protoreflect.MethodDescriptor {
	var all []protoreflect.MethodDescriptor
	pkg := (&lmwardenv1.Model{}).ProtoReflect().Descriptor().ParentFile().Package()
	protoregistry.GlobalFiles.RangeFilesByPackage(pkg, func(file protoreflect.FileDescriptor) bool {
		for i := range file.Services().Len() {
			service := file.Services().Get(i)
			for j := range service.Methods().Len() {
				all = append(all, service.Methods().Get(j))
			}
		}
		return true
	})
	slices.SortStableFunc(all, func(x, y protoreflect.MethodDescriptor) int {
		return strings.Compare(string(x.Parent().FullName()), string(y.Parent().FullName()))
	})
	return all
}

// methodName is SERVICE.METHOD.
func methodName(m protoreflect.MethodDescriptor) string {
	return string(m.Parent().Name()) + "." + string(m.Name())
}

// findMethod finds a method by SERVICE.METHOD, also with the package before it or a
// slash between them.
func findMethod(name string) (protoreflect.MethodDescriptor, error) {
	want := strings.ReplaceAll(strings.TrimPrefix(name, "/"), "/", ".")
	var near []string
	for _, m := range methods() {
		if want == methodName(m) || want == string(m.FullName()) {
			return m, nil
		}
		service, _, _ := strings.Cut(want, ".")
		if strings.EqualFold(string(m.Parent().Name()), service) || strings.EqualFold(string(m.Name()), want) {
			near = append(near, methodName(m))
		}
	}
	if len(near) > 0 {
		return nil, usageErrorf("%q is no method of the API; did you mean %s?", name, strings.Join(near, ", "))
	}
	return nil, usageErrorf("%q is no method of the API; \"lmwarden api\" lists them", name)
}

// listMethods prints every method with its request and its answer.
func (a *app) listMethods() error {
	t := a.newTable("method", "request", "answer")
	for _, m := range methods() {
		answer := string(m.Output().Name())
		if m.IsStreamingServer() {
			answer = "stream of " + answer
		}
		t.add(methodName(m), string(m.Input().Name()), answer)
	}
	t.print(a.out)
	return nil
}

// readRequest reads a request from where the flag says.
func (a *app) readRequest(md protoreflect.MessageDescriptor, data string) (proto.Message, error) {
	req, err := newMessage(md)
	if err != nil {
		return nil, err
	}
	text := []byte(data)
	switch {
	case data == "":
		return req, nil
	case data == "-":
		text, err = io.ReadAll(a.in)
	case strings.HasPrefix(data, "@"):
		text, err = os.ReadFile(data[1:])
	}
	if err != nil {
		return nil, usageErrorf("the request cannot be read: %w", err)
	}
	if err := protojson.Unmarshal(text, req); err != nil {
		return nil, usageErrorf("the request is not a %s: %s", md.Name(), strings.TrimPrefix(strings.ReplaceAll(err.Error(), "\u00a0", " "), "proto: "))
	}
	return req, nil
}

// newMessage makes a message of the generated type.
func newMessage(md protoreflect.MessageDescriptor) (proto.Message, error) {
	mt, err := protoregistry.GlobalTypes.FindMessageByName(md.FullName())
	if err != nil {
		return nil, fmt.Errorf("this binary does not know %s: %w", md.FullName(), err)
	}
	return mt.New().Interface(), nil
}

// call calls a method and prints each message of its answer on a line.
func (a *app) call(ctx context.Context, method protoreflect.MethodDescriptor, req proto.Message) error {
	cs, err := a.dial()
	if err != nil {
		return err
	}
	spec := connect.Spec{
		StreamType:       connect.StreamTypeUnary,
		Schema:           method,
		Procedure:        "/" + string(method.Parent().FullName()) + "/" + string(method.Name()),
		IdempotencyLevel: idempotency(method),
	}
	if !method.IsStreamingServer() {
		answer, err := newMessage(method.Output())
		if err != nil {
			return err
		}
		if err := cs.raw.CallUnary(ctx, spec, req, answer); err != nil {
			return err
		}
		return a.printLine(answer)
	}
	spec.StreamType = connect.StreamTypeServer
	stream, err := cs.raw.CallServerStream(ctx, spec, req)
	if err != nil {
		return err
	}
	return receive(ctx, rawStream{stream, method.Output()}, a.printLine)
}

// printLine prints a message as one line of JSON, whatever form was asked for but YAML.
func (a *app) printLine(m proto.Message) error {
	if a.output == outputYAML {
		return a.showLine(m, nil)
	}
	data, err := jsonOf(m, "")
	if err != nil {
		return err
	}
	return a.write(append(data, '\n'))
}

// rawStream is a stream of messages that are known by descriptor only.
type rawStream struct {
	connect.ClientStream
	output protoreflect.MessageDescriptor
}

// Receive returns the next message.
func (s rawStream) Receive() (proto.Message, error) {
	m, err := newMessage(s.output)
	if err != nil {
		return nil, err
	}
	return m, s.ClientStream.Receive(m)
}

func idempotency(method protoreflect.MethodDescriptor) connect.IdempotencyLevel {
	options, ok := method.Options().(*descriptorpb.MethodOptions)
	if ok && options.GetIdempotencyLevel() == descriptorpb.MethodOptions_NO_SIDE_EFFECTS {
		return connect.IdempotencyNoSideEffects
	}
	return connect.IdempotencyUnknown
}
