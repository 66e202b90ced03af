package main

import (
	"encoding/binary"
	"errors"
	"fmt"

	"google.golang.org/grpc"
)

// frame is the one message of the loop: what becomes of some tasks.
type frame struct {
	kind  byte
	tasks []uint64
}

// Kinds of frames.
const (
	spawned byte = iota + 1
	started
	ended
)

// codec writes frames.
type codec struct{}

// Name implements encoding.Codec.
func (codec) Name() string { return "frame" }

// Marshal implements encoding.Codec.
func (codec) Marshal(v any) ([]byte, error) {
	f, ok := v.(*frame)
	if !ok {
		return nil, fmt.Errorf("%T is not a frame", v)
	}
	text := append(make([]byte, 0, 1+4*len(f.tasks)), f.kind)
	for _, task := range f.tasks {
		text = binary.AppendUvarint(text, task)
	}
	return text, nil
}

// Unmarshal implements encoding.Codec.
func (codec) Unmarshal(text []byte, v any) error {
	f, ok := v.(*frame)
	if !ok {
		return fmt.Errorf("%T is not a frame", v)
	}
	if len(text) == 0 {
		return errors.New("an empty frame")
	}
	f.kind, text = text[0], text[1:]
	f.tasks = f.tasks[:0]
	for len(text) > 0 {
		task, n := binary.Uvarint(text)
		if n <= 0 {
			return errors.New("a frame that is cut")
		}
		f.tasks, text = append(f.tasks, task), text[n:]
	}
	return nil
}

// hub is what the server does with streams.
type hub interface {
	serveParent(grpc.ServerStream) error
	serveWorker(grpc.ServerStream) error
}

const (
	methodParent = "/floor/Parent"
	methodWorker = "/floor/Worker"
)

// service is the server's two methods, both streams in both directions.
var service = grpc.ServiceDesc{
	ServiceName: "floor",
	HandlerType: (*hub)(nil),
	Streams: []grpc.StreamDesc{
		{StreamName: "Parent", ServerStreams: true, ClientStreams: true, Handler: func(srv any, s grpc.ServerStream) error {
			return srv.(hub).serveParent(s)
		}},
		{StreamName: "Worker", ServerStreams: true, ClientStreams: true, Handler: func(srv any, s grpc.ServerStream) error {
			return srv.(hub).serveWorker(s)
		}},
	},
}
