package wire

import (
	pb "github.com/coppice-run/coppice/internal/gen/coppice/v1"
	"github.com/coppice-run/coppice/internal/tree"
)

// Base converts the base of a conversation; nil for a conversation without one.
func Base(b tree.Base) *pb.Base {
	if b.Kind == tree.BaseNone {
		return nil
	}
	return &pb.Base{Kind: pb.BaseKind(b.Kind), TaskId: id(b.Task), Ordinal: int32(b.Message), Block: int32(b.Block)}
}

// Attachment converts an image or a document.
func Attachment(a tree.Attachment) *pb.AttachmentBlock {
	return &pb.AttachmentBlock{
		Kind: pb.AttachmentKind(a.Kind), MediaType: a.MediaType, Name: a.Name, Data: a.Data, Url: a.URL,
	}
}

// AttachmentFrom parses an image or a document.
func AttachmentFrom(a *pb.AttachmentBlock) tree.Attachment {
	return tree.Attachment{
		Kind: tree.AttachmentKind(a.GetKind()), MediaType: a.GetMediaType(), Name: a.GetName(),
		Data: a.GetData(), URL: a.GetUrl(),
	}
}

// branchEvent sets the kind of an event that belongs to no run.
func branchEvent(out *pb.Event, kind tree.EventKind) {
	switch k := kind.(type) {
	case tree.BranchOpened:
		out.Kind = &pb.Event_BranchOpened{BranchOpened: &pb.BranchOpened{
			Base: Base(k.Base), HeadMessageId: id(k.Head), Agent: k.Agent, Description: k.Description,
		}}
	case tree.BranchSelected:
		out.Kind = &pb.Event_BranchSelected{BranchSelected: &pb.BranchSelected{}}
	case tree.Imported:
		out.Kind = &pb.Event_Imported{Imported: &pb.TranscriptImported{
			Messages: int32(k.Messages), HeadMessageId: id(k.Head),
		}}
	}
}

// compactFrom parses a summary.
func compactFrom(c *pb.Compact, from tree.From) (tree.Command, error) {
	m, err := MessageFrom(c.GetMessage())
	if err != nil {
		return nil, err
	}
	return tree.Compact{From: from, UpTo: int(c.GetUpTo()), Summary: m}, nil
}
