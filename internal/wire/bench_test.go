package wire

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	pb "github.com/coppice-run/coppice/internal/gen/coppice/v1"
	"github.com/coppice-run/coppice/internal/tree"
)

// answered returns an assistant message with so many calls of so many bytes each.
func answered(calls, bytes int) *tree.Message {
	m := &tree.Message{
		ID: tree.ID[tree.Message]{1}, Ordinal: 2, Run: 1, Role: tree.RoleAssistant, Model: "scripted",
		Usage: tree.Usage{Input: 900, Output: 20}, Stop: tree.StopToolUse, CreatedAt: time.Unix(1_800_000_000, 0),
		Blocks: []tree.Block{tree.Text{Text: "Let me see where the setting is read."}},
	}
	for n := range calls {
		m.Blocks = append(m.Blocks, tree.ToolUse{
			ProviderID: fmt.Sprint("call_", n), Name: "task", Input: []byte(`{"prompt":"` + strings.Repeat("x", bytes) + `"}`),
		})
	}
	return m
}

// BenchmarkMessage converts and encodes a message, and decodes and converts it back.
func BenchmarkMessage(b *testing.B) {
	for _, calls := range []int{0, 1, 1000} {
		m := answered(calls, 100)
		data, err := proto.Marshal(Message(m))
		if err != nil {
			b.Fatal(err)
		}
		b.Run(fmt.Sprintf("there/%d_calls", calls), func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(data)))
			for b.Loop() {
				if _, err := proto.Marshal(Message(m)); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(fmt.Sprintf("back/%d_calls", calls), func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(data)))
			for b.Loop() {
				var p pb.Message
				if err := proto.Unmarshal(data, &p); err != nil {
					b.Fatal(err)
				}
				if _, err := MessageFrom(&p); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkEvent encodes an event for the database, and decodes it for a watcher.
func BenchmarkEvent(b *testing.B) {
	e := &tree.Event{
		Seq: 1000, Time: time.Unix(1_800_000_000, 0), Task: tree.TaskID{1}, Run: 1,
		Kind: tree.Started{Parent: tree.TaskID{2}, Depth: 1, Agent: "explore", Description: "look it up"},
	}
	data := EncodeEvent(e)
	b.Run("stored", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			EncodeEvent(e)
		}
	})
	b.Run("shown", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			found, err := DecodeEvent(data)
			if err != nil {
				b.Fatal(err)
			}
			if _, err := proto.Marshal(&pb.WatchSessionResponse{Step: &pb.WatchSessionResponse_Event{Event: found}}); err != nil {
				b.Fatal(err)
			}
		}
	})
}
