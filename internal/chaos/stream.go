package chaos

import (
	"context"
	"sync"

	"google.golang.org/grpc"

	pb "github.com/coppice-run/coppice/internal/gen/coppice/v1"
	"github.com/coppice-run/coppice/internal/wire"
)

// Streams gives an interceptor for a worker's connection that records each
// acknowledgement before the worker sees it.
func (w *Witness) Streams() grpc.StreamClientInterceptor {
	return func(ctx context.Context, desc *grpc.StreamDesc, conn *grpc.ClientConn, method string, open grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
		stream, err := open(ctx, desc, conn, method, opts...)
		if err != nil || method != pb.WorkerService_Work_FullMethodName {
			return stream, err
		}
		return &witnessedStream{ClientStream: stream, Witness: w}, nil
	}
}

// token names an attempt, on whichever stream it is.
type token struct {
	session, task string
	epoch         int64
	nonce         uint64
}

// attempt is what a worker has asked in an attempt and was not yet answered. One
// goroutine sends, one receives.
type attempt struct {
	token
	mu      sync.Mutex
	asked   map[int64]*pb.WorkRequest
	granted bool
	ordinal int32 // of the message whose calls are open
}

// witnessedStream is a worker's stream: requests are remembered, answers recorded.
type witnessedStream struct {
	grpc.ClientStream
	*Witness

	mu sync.Mutex
	on *attempt

	offered uint64 // the nonce of the last offer of the slot; only the receiver looks at it
}

func (s *witnessedStream) SendMsg(m any) error {
	if req, ok := m.(*pb.WorkRequest); ok {
		s.asks(req)
	}
	return s.ClientStream.SendMsg(m)
}

// asks remembers a request.
func (s *witnessedStream) asks(req *pb.WorkRequest) {
	switch k := req.GetKind().(type) {
	case *pb.WorkRequest_Delta, *pb.WorkRequest_Heartbeat:
		return
	case *pb.WorkRequest_Reattach:
		s.enter(token{k.Reattach.GetSessionId(), k.Reattach.GetTaskId(), k.Reattach.GetEpoch(), k.Reattach.GetNonce()})
		return
	case *pb.WorkRequest_Claim:
		s.enter(token{k.Claim.GetSessionId(), k.Claim.GetTaskId(), k.Claim.GetEpoch(), k.Claim.GetNonce()})
	}
	if a := s.current(); a != nil {
		a.mu.Lock()
		a.asked[req.GetSeq()] = req
		a.mu.Unlock()
	}
}

// enter makes an attempt the one on this stream; it may have been on another.
func (s *witnessedStream) enter(t token) {
	s.Witness.mu.Lock()
	a := s.attempts[t]
	if a == nil {
		a = &attempt{token: t, asked: map[int64]*pb.WorkRequest{}, ordinal: s.said[t.task]}
		s.attempts[t] = a
	}
	s.Witness.mu.Unlock()
	s.mu.Lock()
	s.on = a
	s.mu.Unlock()
}

func (s *witnessedStream) current() *attempt {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.on
}

// leave forgets an attempt that is over.
func (s *witnessedStream) leave(a *attempt) {
	s.Witness.mu.Lock()
	if delete(s.attempts, a.token); len(s.attempts) == 0 {
		close(s.rests)
		s.rests = make(chan struct{})
	}
	s.Witness.mu.Unlock()
	s.mu.Lock()
	if s.on == a {
		s.on = nil
	}
	s.mu.Unlock()
}

func (s *witnessedStream) RecvMsg(m any) error {
	if err := s.ClientStream.RecvMsg(m); err != nil {
		return err
	}
	resp, ok := m.(*pb.WorkResponse)
	if !ok {
		return nil
	}
	for r := range wire.SplitResponses(resp) {
		if r.GetStoodDown() != nil {
			s.given(r.GetGiven())
		} else if a := s.current(); a != nil {
			s.answered(a, r)
		}
	}
	return nil
}

// answered records an answer together with what was asked.
func (s *witnessedStream) answered(a *attempt, resp *pb.WorkResponse) {
	r := Record{Session: a.session, Task: a.task, Epoch: a.epoch, Nonce: a.nonce, Seq: resp.GetSeq()}
	a.mu.Lock()
	defer a.mu.Unlock()
	req := a.asked[resp.GetSeq()]
	switch k := resp.GetKind().(type) {
	case *pb.WorkResponse_Assignment:
		a.granted, r.Kind, r.Run = true, Granted, k.Assignment.GetTask().GetRun()
		s.add(r)
	case *pb.WorkResponse_Transcript:
		for _, m := range k.Transcript.GetMessages() {
			if m.GetRole() == pb.Role_ROLE_ASSISTANT {
				s.hears(a, m.GetOrdinal())
			}
		}
	case *pb.WorkResponse_Reattached:
		r.Kind, r.Seq = Reattached, k.Reattached.GetLastSeq()
		s.add(r)
	case *pb.WorkResponse_Refused:
		if a.granted { // it wanted to go on, and it is over
			r.Kind = Lost
			s.add(r)
		}
		s.leave(a)
	case *pb.WorkResponse_Lost:
		r.Kind = Lost
		s.add(r)
		s.leave(a)
	case *pb.WorkResponse_Ack:
		delete(a.asked, resp.GetSeq())
		s.stored(a, r, req, k.Ack.GetOrdinal())
	case *pb.WorkResponse_Parked:
		r.Kind = ParkedAt
		if answer := req.GetEnd().GetAnswer(); answer != nil {
			r.Digest = said(answer)
		}
		s.add(r)
		s.passOn(a, req, resp.GetGiven())
	case *pb.WorkResponse_Ended:
		r.Kind, r.State = Ended, k.Ended.GetState().String()
		if answer := req.GetEnd().GetAnswer(); answer != nil {
			r.Digest = said(answer)
		}
		s.add(r)
		s.passOn(a, req, resp.GetGiven())
	}
}

// passOn makes the attempt that has come with the end of another, if one has, that on this
// stream, and forgets the one that is over.
func (s *witnessedStream) passOn(a *attempt, req *pb.WorkRequest, given *pb.GivenRun) {
	s.offered = req.GetTakes().GetNonce()
	s.given(given)
	s.leave(a)
}

// given makes an attempt that the slot has got, if it has got one, that on this stream.
func (s *witnessedStream) given(run *pb.GivenRun) {
	if run != nil {
		s.enter(token{run.GetSessionId(), run.GetTaskId(), run.GetEpoch(), s.offered})
	}
}

// hears remembers the last message in which a task has asked for calls: a worker is not
// sent again what it has of a transcript.
func (s *witnessedStream) hears(a *attempt, ordinal int32) {
	a.ordinal = ordinal
	s.Witness.mu.Lock()
	s.said[a.task] = ordinal
	s.Witness.mu.Unlock()
}

// stored records that a request was stored.
func (s *witnessedStream) stored(a *attempt, r Record, req *pb.WorkRequest, ordinal int32) {
	switch k := req.GetKind().(type) {
	case *pb.WorkRequest_Append:
		s.hears(a, ordinal)
		r.Kind, r.Ordinal, r.Digest = Appended, ordinal, said(k.Append.GetMessage())
	case *pb.WorkRequest_End:
		r.Kind, r.Ordinal, r.Digest = Appended, ordinal, said(k.End.GetAnswer())
	case *pb.WorkRequest_CallClose:
		r.Kind, r.Ordinal = Closed, a.ordinal
		r.Block, r.Digest = k.CallClose.GetResult().GetBlock(), result(k.CallClose.GetResult())
	case *pb.WorkRequest_Spawn:
		r.Kind, r.Ordinal = Spawned, a.ordinal
		for _, c := range k.Spawn.GetChildren() {
			r.Blocks = append(r.Blocks, c.GetBlock())
		}
	default:
		return
	}
	s.add(r)
}
