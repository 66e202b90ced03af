package wire

import (
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	pb "github.com/coppice-run/coppice/internal/gen/coppice/v1"
)

// Cleaner takes out of text what must not be passed on.
type Cleaner interface {
	String(text string) string
	// JSON does it within a JSON text, which stays one.
	JSON(text string) string
}

// Clean does it to all text of a message, in place. Bytes are left alone. Reasoning
// that is changed loses its seal, which is of what it was.
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

// cleanMap makes a map anew if there is something in it, names included.
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

// cleanValue gives what to set in the place of a value; messages change themselves.
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

// CleanStatus gives a status whose text may be passed on.
func CleanStatus(err error, c Cleaner) error {
	st, ok := status.FromError(err)
	if err == nil || !ok || c.String(st.Message()) == st.Message() {
		return err
	}
	shown := st.Proto()
	shown.Message = c.String(st.Message())
	return status.FromProto(shown).Err()
}
