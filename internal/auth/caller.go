package auth

import (
	"context"
	"strings"

	"google.golang.org/grpc/metadata"
)

// The metadata that carries the token of a call.
const (
	header = "authorization"
	scheme = "Bearer"
)

// TokenFromContext returns the token of an incoming call. It is empty if the call has no token,
// or more than one.
func TokenFromContext(ctx context.Context) string {
	values := metadata.ValueFromIncomingContext(ctx, header)
	if len(values) != 1 {
		return ""
	}
	said, token, _ := strings.Cut(values[0], " ")
	if !strings.EqualFold(said, scheme) {
		return ""
	}
	return token
}
