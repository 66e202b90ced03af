package auth

import (
	"context"
	"strings"

	"google.golang.org/grpc/metadata"
)

// Where a call carries its token.
const (
	header = "authorization"
	scheme = "Bearer"
)

// TokenFromContext gives the token that a call carries; empty if it carries none, or several.
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
