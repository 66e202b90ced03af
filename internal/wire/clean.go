package wire

import (
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	pb "github.com/coppice-run/coppice/internal/gen/coppice/v1"
)

// Cleaner removes secrets from text.
type Cleaner interface {
	String(text string) string
	// JSON removes them from a JSON text, and keeps the JSON valid.
	JSON(text string) string
}

// Clean removes secrets from all text of a message, in place. It does not change bytes. If it
// changes the text of reasoning, it removes the signature, which no longer fits the text.
func Clean(m proto.Message, c Cleaner) {
	if m != nil {
		clean(m.ProtoReflect(), c)
	}
}

func clean(m protoreflect.Message, c Cleaner) {
	switch b := m.Interface().(type) {
	case *pb.ThinkingBlock:
		text, seal := c.String(b.Text), c.String(b.Signature)
		if text != b.Text || seal != b.Signature {
			b.Text, b.Signature = text, ""
		}
		return
	case *pb.ToolUseBlock:
		b.ProviderId, b.Name, b.InputJson = c.String(b.ProviderId), c.String(b.Name), c.JSON(b.InputJson)
		return
	}
	m.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case f.IsMap():
			cleanMap(m, f, v.Map(), c)
		case f.IsList():
			for i := range v.List().Len() {
				if now, changed := cleanValue(f, v.List().Get(i), c); changed {
					v.List().Set(i, now)
				}
			}
		default:
			if now, changed := cleanValue(f, v, c); changed {
				m.Set(f, now)
			}
		}
		return true
	})
}

// cleanMap replaces a map if one of its keys or values has a secret.
func cleanMap(m protoreflect.Message, f protoreflect.FieldDescriptor, old protoreflect.Map, c Cleaner) {
	now, dirty := m.NewField(f).Map(), false
	old.Range(func(k protoreflect.MapKey, v protoreflect.Value) bool {
		name, named := cleanValue(f.MapKey(), k.Value(), c)
		value, valued := cleanValue(f.MapValue(), v, c)
		now.Set(name.MapKey(), value)
		dirty = dirty || named || valued
		return true
	})
	if dirty {
		m.Set(f, protoreflect.ValueOfMap(now))
	}
}

// cleanValue returns the clean value and whether it differs. Messages are changed in place.
func cleanValue(f protoreflect.FieldDescriptor, v protoreflect.Value, c Cleaner) (_ protoreflect.Value, changed bool) {
	switch f.Kind() {
	case protoreflect.StringKind:
		text := v.String()
		if now := c.String(text); now != text {
			return protoreflect.ValueOfString(now), true
		}
	case protoreflect.MessageKind:
		clean(v.Message(), c)
	}
	return v, false
}

// CleanStatus returns a status error without secrets in its text.
func CleanStatus(err error, c Cleaner) error {
	st, ok := status.FromError(err)
	if err == nil || !ok || c.String(st.Message()) == st.Message() {
		return err
	}
	shown := st.Proto()
	shown.Message = c.String(st.Message())
	return status.FromProto(shown).Err()
}
