package api

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"github.com/coppice-run/coppice/internal/redact"
	"github.com/coppice-run/coppice/internal/wire"
)

// unaryClean removes secrets from requests before any handler sees them. Everything that clients
// and workers send passes through here or through streamClean.
func unaryClean(secrets *redact.Redactor) grpc.UnaryServerInterceptor {
	return func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
		cleanRequest(req, secrets)
		return handler(ctx, req)
	}
}

func streamClean(secrets *redact.Redactor) grpc.StreamServerInterceptor {
	return func(srv any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
		return handler(srv, cleanStream{stream, secrets})
	}
}

type cleanStream struct {
	grpc.ServerStream
	secrets *redact.Redactor
}

// RecvMsg receives a message and removes secrets from it.
func (s cleanStream) RecvMsg(m any) error {
	err := s.ServerStream.RecvMsg(m)
	if err == nil {
		cleanRequest(m, s.secrets)
	}
	return err
}

func cleanRequest(m any, secrets *redact.Redactor) {
	if message, ok := m.(proto.Message); ok && !secrets.None() {
		wire.Clean(message, secrets)
	}
}
