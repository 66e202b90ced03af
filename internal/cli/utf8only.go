package cli

import (
	"context"
	"errors"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
)

// utf8Only is a connection that refuses text that is not UTF-8 with a usage error. gRPC would
// report an internal error.
type utf8Only struct{ grpc.ClientConnInterface }

// Invoke makes a call.
func (c utf8Only) Invoke(ctx context.Context, method string, req, resp any, options ...grpc.CallOption) error {
	if err := isUTF8(req); err != nil {
		return err
	}
	return c.ClientConnInterface.Invoke(ctx, method, req, resp, options...)
}

// NewStream begins a stream.
func (c utf8Only) NewStream(ctx context.Context, desc *grpc.StreamDesc, method string, options ...grpc.CallOption) (grpc.ClientStream, error) {
	stream, err := c.ClientConnInterface.NewStream(ctx, desc, method, options...)
	if err != nil {
		return nil, err
	}
	return utf8Stream{stream}, nil
}

type utf8Stream struct{ grpc.ClientStream }

// SendMsg sends a message.
func (s utf8Stream) SendMsg(req any) error {
	if err := isUTF8(req); err != nil {
		return err
	}
	return s.ClientStream.SendMsg(req)
}

// isUTF8 refuses a request with text that is not UTF-8. The API has no required fields, so nothing
// else can make encoding fail.
func isUTF8(req any) error {
	if m, is := req.(proto.Message); is {
		if _, err := proto.Marshal(m); errors.Is(err, proto.Error) {
			return usagef("the text is not UTF-8")
		}
	}
	return nil
}
