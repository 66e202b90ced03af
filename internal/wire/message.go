// Package wire converts between the core's types and the protobuf messages of the contract, and
// between named errors and gRPC statuses. It decides nothing. Functions named XFrom convert from
// protobuf. Enums have the same numbers on both sides; a test checks that.
package wire

import (
	"encoding/json"
	"fmt"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	pb "github.com/coppice-run/coppice/internal/gen/coppice/v1"
	"github.com/coppice-run/coppice/internal/tree"
)

// Message converts a message.
func Message(m *tree.Message) *pb.Message {
	return &pb.Message{
		Id:         id(m.ID),
		ParentId:   id(m.Parent),
		Ordinal:    int32(m.Ordinal),
		Run:        int32(m.Run),
		Role:       pb.Role(m.Role),
		Blocks:     Blocks(m.Blocks),
		Model:      m.Model,
		Usage:      Usage(m.Usage),
		StopReason: pb.StopReason(m.Stop),
		CreateTime: timestamp(m.CreatedAt),
		News:       childRun(m.News),
		SumsUpTo:   int32(m.UpTo),
		Source:     m.Source,
	}
}

// MessageFrom parses a message. The task is not part of it.
func MessageFrom(m *pb.Message) (tree.Message, error) {
	blocks, err := BlocksFrom(m.GetBlocks())
	if err != nil {
		return tree.Message{}, err
	}
	out := tree.Message{
		Ordinal: int(m.GetOrdinal()),
		Run:     int(m.GetRun()),
		Role:    tree.Role(m.GetRole()),
		Blocks:  blocks,
		Model:   m.GetModel(),
		Usage:   UsageFrom(m.GetUsage()),
		Stop:    tree.StopReason(m.GetStopReason()),
		UpTo:    int(m.GetSumsUpTo()),
		Source:  m.GetSource(),
	}
	if out.ID, err = optionalID[tree.Message](m.GetId()); err != nil {
		return tree.Message{}, fmt.Errorf("message id: %w", err)
	}
	if out.Parent, err = optionalID[tree.Message](m.GetParentId()); err != nil {
		return tree.Message{}, fmt.Errorf("parent id: %w", err)
	}
	if out.News, err = childRunFrom(m.GetNews()); err != nil {
		return tree.Message{}, fmt.Errorf("news: %w", err)
	}
	if m.GetCreateTime() != nil {
		out.CreatedAt = m.GetCreateTime().AsTime()
	}
	return out, nil
}

// Messages converts a list of messages.
func Messages(ms []tree.Message) []*pb.Message {
	out := make([]*pb.Message, len(ms))
	for i := range ms {
		out[i] = Message(&ms[i])
	}
	return out
}

// MessagesFrom parses a list of messages.
func MessagesFrom(ms []*pb.Message) ([]tree.Message, error) {
	out := make([]tree.Message, len(ms))
	for i, m := range ms {
		var err error
		if out[i], err = MessageFrom(m); err != nil {
			return nil, fmt.Errorf("message %d: %w", i, err)
		}
	}
	return out, nil
}

// MaxResponseBytes bounds one response. A large tree is a large response.
const MaxResponseBytes = 64 << 20

// pieceBytes is the approximate maximum size of a piece of a transcript.
const pieceBytes = 256 << 10

// Pieces splits a transcript into pieces, each of which fits into one message of a stream. A
// message that is larger than pieceBytes is a piece of its own.
func Pieces(messages []*pb.Message) [][]*pb.Message {
	var out [][]*pb.Message
	size := 0
	for _, m := range messages {
		n := m.SizeVT()
		if len(out) == 0 || size+n > pieceBytes {
			out, size = append(out, nil), 0
		}
		out[len(out)-1] = append(out[len(out)-1], m)
		size += n
	}
	return out
}

// Blocks converts the parts of a message.
func Blocks(blocks []tree.Block) []*pb.Block {
	out := make([]*pb.Block, len(blocks))
	for i, b := range blocks {
		switch b := b.(type) {
		case tree.Text:
			out[i] = &pb.Block{Kind: &pb.Block_Text{Text: &pb.TextBlock{Text: b.Text}}}
		case tree.Thinking:
			out[i] = &pb.Block{Kind: &pb.Block_Thinking{Thinking: &pb.ThinkingBlock{
				Text: b.Text, Signature: b.Signature,
			}}}
		case tree.ToolUse:
			out[i] = &pb.Block{Kind: &pb.Block_ToolUse{ToolUse: &pb.ToolUseBlock{
				ProviderId: b.ProviderID, Name: b.Name, InputJson: string(b.Input),
			}}}
		case tree.ToolResult:
			out[i] = &pb.Block{Kind: &pb.Block_ToolResult{ToolResult: ToolResult(b)}}
		case tree.Attachment:
			out[i] = &pb.Block{Kind: &pb.Block_Attachment{Attachment: Attachment(b)}}
		}
	}
	return out
}

// ToolResult converts the result of a call.
func ToolResult(r tree.ToolResult) *pb.ToolResultBlock {
	return &pb.ToolResultBlock{
		Block: int32(r.Block), ProviderId: r.ProviderID, Text: r.Text, IsError: r.IsError,
	}
}

// BlocksFrom parses the parts of a message. A block without a kind is an error.
func BlocksFrom(blocks []*pb.Block) ([]tree.Block, error) {
	out := make([]tree.Block, len(blocks))
	for i, b := range blocks {
		switch k := b.GetKind().(type) {
		case *pb.Block_Text:
			out[i] = tree.Text{Text: k.Text.GetText()}
		case *pb.Block_Thinking:
			out[i] = tree.Thinking{Text: k.Thinking.GetText(), Signature: k.Thinking.GetSignature()}
		case *pb.Block_ToolUse:
			use := k.ToolUse
			out[i] = tree.ToolUse{
				ProviderID: use.GetProviderId(), Name: use.GetName(), Input: json.RawMessage(use.GetInputJson()),
			}
		case *pb.Block_ToolResult:
			out[i] = ToolResultFrom(k.ToolResult)
		case *pb.Block_Attachment:
			out[i] = AttachmentFrom(k.Attachment)
		default:
			return nil, fmt.Errorf("block %d has an unknown kind", i)
		}
	}
	return out, nil
}

// ToolResultFrom parses the result of a call.
func ToolResultFrom(r *pb.ToolResultBlock) tree.ToolResult {
	return tree.ToolResult{
		Block: int(r.GetBlock()), ProviderID: r.GetProviderId(), Text: r.GetText(), IsError: r.GetIsError(),
	}
}

// costMicros returns the known cost, or nil if no tokens are priced.
func costMicros(u tree.Usage) *int64 {
	if u.Priced == 0 {
		return nil
	}
	return &u.Cost
}

// Usage converts token counts; nil if all are zero.
func Usage(u tree.Usage) *pb.Usage {
	if u == (tree.Usage{}) {
		return nil
	}
	return &pb.Usage{
		InputTokens: u.Input, OutputTokens: u.Output,
		CacheReadTokens: u.CacheRead, CacheWriteTokens: u.CacheWrite,
		CostMicros: costMicros(u), PricedTokens: u.Priced,
	}
}

// UsageFrom parses token counts.
func UsageFrom(u *pb.Usage) tree.Usage {
	return tree.Usage{
		Input: u.GetInputTokens(), Output: u.GetOutputTokens(),
		CacheRead: u.GetCacheReadTokens(), CacheWrite: u.GetCacheWriteTokens(),
		Cost: u.GetCostMicros(), Priced: u.GetPricedTokens(),
	}
}

// Budget converts a budget; nil if it has no bound.
func Budget(b tree.Budget) *pb.Budget {
	if b == (tree.Budget{}) {
		return nil
	}
	return &pb.Budget{Tokens: b.Tokens, CostMicros: b.Cost, ModelCalls: b.ModelCalls}
}

// BudgetFrom parses a budget.
func BudgetFrom(b *pb.Budget) tree.Budget {
	return tree.Budget{Tokens: b.GetTokens(), Cost: b.GetCostMicros(), ModelCalls: b.GetModelCalls()}
}

// EncodeBody returns the part of a message that is stored as one value: blocks, model, usage, stop
// reason, what it sums up, and its source. It returns nil if all of these are empty.
func EncodeBody(m *tree.Message) []byte {
	if len(m.Blocks) == 0 && m.Model == "" && m.Usage == (tree.Usage{}) && m.Stop == tree.StopUnspecified && m.Source == "" {
		return nil
	}
	return encode(&pb.Message{
		Blocks: Blocks(m.Blocks), Model: m.Model, Usage: Usage(m.Usage), StopReason: pb.StopReason(m.Stop),
		SumsUpTo: int32(m.UpTo), Source: m.Source,
	})
}

// DecodeBody decodes the result of EncodeBody into a message.
func DecodeBody(data []byte, m *tree.Message) error {
	var body pb.Message
	if err := body.UnmarshalVT(data); err != nil {
		return fmt.Errorf("decoding a message body: %w", err)
	}
	blocks, err := BlocksFrom(body.GetBlocks())
	if err != nil {
		return fmt.Errorf("decoding a message body: %w", err)
	}
	m.Blocks, m.Model = blocks, body.GetModel()
	m.Usage, m.Stop = UsageFrom(body.GetUsage()), tree.StopReason(body.GetStopReason())
	m.UpTo, m.Source = int(body.GetSumsUpTo()), body.GetSource()
	return nil
}

// encode encodes a message, which can't fail. Texts are not checked here: they are made valid UTF-8
// where they enter the system.
func encode(m generated) []byte {
	data, err := m.MarshalVT()
	if err != nil {
		panic(fmt.Sprintf("wire: encoding %T: %v", m, err))
	}
	return data
}

// id returns the text of an id; empty for the zero id.
func id[Of any](id tree.ID[Of]) string {
	if id.IsZero() {
		return ""
	}
	return id.String()
}

// optionalID parses an id; empty text is the zero id.
func optionalID[Of any](s string) (tree.ID[Of], error) {
	if s == "" {
		return tree.ID[Of]{}, nil
	}
	return tree.ParseID[Of](s)
}

func childRun(c tree.ChildRun) *pb.ChildRun {
	if c == (tree.ChildRun{}) {
		return nil
	}
	return &pb.ChildRun{TaskId: id(c.Task), Run: int32(c.Run)}
}

func childRunFrom(c *pb.ChildRun) (tree.ChildRun, error) {
	task, err := optionalID[tree.Task](c.GetTaskId())
	return tree.ChildRun{Task: task, Run: int(c.GetRun())}, err
}

func timestamp(t time.Time) *timestamppb.Timestamp {
	if t.IsZero() {
		return nil
	}
	return timestamppb.New(t)
}
