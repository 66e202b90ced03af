package chaos

import (
	"cmp"
	"context"
	"sync"
	"time"

	"google.golang.org/grpc"

	pb "github.com/coppice-run/coppice/internal/gen/coppice/v1"
	"github.com/coppice-run/coppice/internal/wire"
)

// Streams returns an interceptor for a worker's connection. It records each acknowledgement
// before the worker receives it.
func (w *Witness) Streams() grpc.StreamClientInterceptor {
	return func(ctx context.Context, desc *grpc.StreamDesc, conn *grpc.ClientConn, method string, open grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
		stream, err := open(ctx, desc, conn, method, opts...)
		if err != nil || method != pb.WorkerService_Work_FullMethodName {
			return stream, err
		}
		return &witnessedStream{ClientStream: stream, Witness: w}, nil
	}
}

// attemptID identifies an attempt on any stream.
type attemptID struct {
	session, task string
	epoch         int64
	nonce         uint64
}

// attempt holds the unanswered requests of an attempt. One goroutine sends, one receives.
type attempt struct {
	attemptID
	mu           sync.Mutex
	pending      map[int64]*pb.WorkRequest
	granted      bool
	callsOrdinal int32 // ordinal of the message whose calls are open
}

// witnessedStream is a worker's stream that remembers requests and records answers.
type witnessedStream struct {
	grpc.ClientStream
	*Witness

	mu      sync.Mutex
	bound   *attempt
	askedAt time.Time // when the stream was asked to continue an attempt

	offeredNonce uint64 // nonce of the last offer of the slot; used only by the receiver
}

func (s *witnessedStream) SendMsg(m any) error {
	if req, ok := m.(*pb.WorkRequest); ok {
		s.recordRequest(req)
	}
	return s.ClientStream.SendMsg(m)
}

// recordRequest remembers a request.
func (s *witnessedStream) recordRequest(req *pb.WorkRequest) {
	switch k := req.GetKind().(type) {
	case *pb.WorkRequest_Delta, *pb.WorkRequest_Heartbeat:
		return
	case *pb.WorkRequest_Reattach:
		s.bindAttempt(attemptID{k.Reattach.GetSessionId(), k.Reattach.GetTaskId(), k.Reattach.GetEpoch(), k.Reattach.GetNonce()})
		s.mu.Lock()
		s.askedAt = time.Now()
		s.mu.Unlock()
		return
	case *pb.WorkRequest_Claim:
		s.bindAttempt(attemptID{k.Claim.GetSessionId(), k.Claim.GetTaskId(), k.Claim.GetEpoch(), k.Claim.GetNonce()})
	}
	if a := s.current(); a != nil {
		a.mu.Lock()
		a.pending[req.GetSeq()] = req
		a.mu.Unlock()
	}
}

// bindAttempt binds the stream to an attempt, which may have been on another stream.
func (s *witnessedStream) bindAttempt(t attemptID) {
	s.Witness.mu.Lock()
	a := s.attempts[t]
	if a == nil {
		a = &attempt{attemptID: t, pending: map[int64]*pb.WorkRequest{}, callsOrdinal: s.callsOrdinals[t.task]}
		s.attempts[t] = a
	}
	s.Witness.mu.Unlock()
	s.mu.Lock()
	s.bound = a
	s.mu.Unlock()
}

func (s *witnessedStream) current() *attempt {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.bound
}

// forgetAttempt removes an attempt that is over.
func (s *witnessedStream) forgetAttempt(a *attempt) {
	s.Witness.mu.Lock()
	if delete(s.attempts, a.attemptID); len(s.attempts) == 0 {
		close(s.idle)
		s.idle = make(chan struct{})
	}
	s.Witness.mu.Unlock()
	s.mu.Lock()
	if s.bound == a {
		s.bound = nil
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
			s.bindGivenRun(r.GetGiven())
		} else if a := s.current(); a != nil {
			s.recordResponse(a, r)
		}
	}
	return nil
}

// recordResponse records an answer together with its request.
func (s *witnessedStream) recordResponse(a *attempt, resp *pb.WorkResponse) {
	r := Record{Session: a.session, Task: a.task, Epoch: a.epoch, Nonce: a.nonce, Seq: resp.GetSeq()}
	a.mu.Lock()
	defer a.mu.Unlock()
	req := a.pending[resp.GetSeq()]
	switch k := resp.GetKind().(type) {
	case *pb.WorkResponse_Assignment:
		a.granted, r.Kind, r.Run = true, Granted, k.Assignment.GetTask().GetRun()
		s.add(r)
	case *pb.WorkResponse_Transcript:
		for _, m := range k.Transcript.GetMessages() {
			if m.GetRole() == pb.Role_ROLE_ASSISTANT {
				s.rememberCalls(a, m.GetOrdinal())
			}
		}
	case *pb.WorkResponse_Reattached:
		s.mu.Lock()
		r.Kind, r.Seq, r.Began = Reattached, k.Reattached.GetLastSeq(), s.askedAt
		s.mu.Unlock()
		s.add(r)
	case *pb.WorkResponse_Refused:
		if a.granted { // it wanted to continue, and is over
			r.Kind = Lost
			s.add(r)
		}
		s.forgetAttempt(a)
	case *pb.WorkResponse_Lost:
		r.Kind = Lost
		s.add(r)
		s.forgetAttempt(a)
	case *pb.WorkResponse_Ack:
		delete(a.pending, resp.GetSeq())
		s.recordStored(a, r, req, k.Ack.GetOrdinal())
	case *pb.WorkResponse_Parked:
		r.Kind = ParkedAt
		r.Digest = answerDigest(req)
		s.add(r)
		s.switchAttempt(a, req, resp.GetGiven())
	case *pb.WorkResponse_Ended:
		r.Kind, r.State = Ended, k.Ended.GetState().String()
		r.Digest = answerDigest(req)
		s.add(r)
		s.switchAttempt(a, req, resp.GetGiven())
	}
}

// answerDigest hashes the answer of a request that may end a run; empty if it has none. That of a
// command is its output.
func answerDigest(req *pb.WorkRequest) string {
	answer := cmp.Or(req.GetEnd().GetAnswer(), req.GetStopHooks().GetAnswer())
	if end := req.GetCommandEnd(); end.GetOutput() != "" {
		answer = &pb.Message{Blocks: []*pb.Block{{Kind: &pb.Block_Text{Text: &pb.TextBlock{Text: end.GetOutput()}}}}}
	}
	if answer == nil {
		return ""
	}
	return messageDigest(answer)
}

// switchAttempt replaces the attempt of the stream by the one that arrived with its end, if
// any.
func (s *witnessedStream) switchAttempt(a *attempt, req *pb.WorkRequest, given *pb.GivenRun) {
	s.offeredNonce = req.GetTakes().GetNonce()
	s.bindGivenRun(given)
	s.forgetAttempt(a)
}

// bindGivenRun binds the stream to the run that the slot was given, if any.
func (s *witnessedStream) bindGivenRun(run *pb.GivenRun) {
	if run != nil {
		s.bindAttempt(attemptID{run.GetSessionId(), run.GetTaskId(), run.GetEpoch(), s.offeredNonce})
	}
}

// rememberCalls remembers the last message of a task that contains calls. A worker is not sent
// again the messages that it has.
func (s *witnessedStream) rememberCalls(a *attempt, ordinal int32) {
	a.callsOrdinal = ordinal
	s.Witness.mu.Lock()
	s.callsOrdinals[a.task] = ordinal
	s.Witness.mu.Unlock()
}

// recordStored records that a request was stored.
func (s *witnessedStream) recordStored(a *attempt, r Record, req *pb.WorkRequest, ordinal int32) {
	switch k := req.GetKind().(type) {
	case *pb.WorkRequest_Append:
		s.rememberCalls(a, ordinal)
		r.Kind, r.Ordinal, r.Digest = Appended, ordinal, messageDigest(k.Append.GetMessage())
	case *pb.WorkRequest_Compact:
		r.Kind, r.Ordinal, r.Digest = Summed, ordinal, messageDigest(k.Compact.GetMessage())
	case *pb.WorkRequest_End, *pb.WorkRequest_StopHooks:
		r.Kind, r.Ordinal, r.Digest = Appended, ordinal, answerDigest(req)
	case *pb.WorkRequest_CallClose:
		r.Kind, r.Ordinal = Closed, a.callsOrdinal
		r.Block, r.Digest = k.CallClose.GetResult().GetBlock(), resultDigest(k.CallClose.GetResult())
	case *pb.WorkRequest_Spawn:
		r.Kind, r.Ordinal = Spawned, a.callsOrdinal
		for _, c := range k.Spawn.GetChildren() {
			r.Blocks = append(r.Blocks, c.GetBlock())
		}
	default:
		return
	}
	s.add(r)
}
