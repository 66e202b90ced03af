package cli

import (
	"bytes"
	"encoding/json"
	"fmt"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

// jsonLine encodes a message as one line of JSON. The encoding is deterministic and safe to show:
// characters that safeText would escape are escaped in the JSON way.
func jsonLine(m proto.Message) ([]byte, error) {
	data, err := protojson.Marshal(m)
	if err != nil {
		return nil, fmt.Errorf("writing JSON: %w", err)
	}
	var line bytes.Buffer
	if err := json.Compact(&line, data); err != nil {
		return nil, fmt.Errorf("writing JSON: %w", err)
	}
	line.WriteByte('\n')
	return safeJSON(line.Bytes()), nil
}

// safeJSON escapes what is not safe to show in lines of JSON, without changing their meaning.
func safeJSON(lines []byte) []byte {
	var safe bytes.Buffer
	for _, r := range string(lines) {
		switch {
		case isHarmless(r) || r == '\n':
			safe.WriteRune(r)
		case r <= 0xffff:
			fmt.Fprintf(&safe, `\u%04x`, r)
		default:
			r -= 0x10000
			fmt.Fprintf(&safe, `\u%04x\u%04x`, 0xd800+r>>10, 0xdc00+r&0x3ff)
		}
	}
	return safe.Bytes()
}
