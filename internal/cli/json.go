package cli

import (
	"bytes"
	"encoding/json"
	"fmt"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

// jsonLine gives a message as one line of JSON. It is always the same for the
// same message, and safe to show: what safeText would write out is escaped the
// way JSON does it.
func jsonLine(m proto.Message) ([]byte, error) {
	data, err := protojson.Marshal(m)
	if err != nil {
		return nil, fmt.Errorf("writing JSON: %w", err)
	}
	var line bytes.Buffer
	if err := json.Compact(&line, data); err != nil {
		return nil, fmt.Errorf("writing JSON: %w", err)
	}
	var safe bytes.Buffer
	for _, r := range line.String() {
		switch {
		case harmless(r):
			safe.WriteRune(r)
		case r <= 0xffff:
			fmt.Fprintf(&safe, `\u%04x`, r)
		default:
			r -= 0x10000
			fmt.Fprintf(&safe, `\u%04x\u%04x`, 0xd800+r>>10, 0xdc00+r&0x3ff)
		}
	}
	safe.WriteByte('\n')
	return safe.Bytes(), nil
}
