package worker

import (
	"context"

	pb "github.com/coppice-run/coppice/internal/gen/coppice/v1"
	"github.com/coppice-run/coppice/internal/tree"
)

// attempt is what a conn knows of its current attempt, or of the last one.
type attempt struct {
	number       int                // counts attempts; a journal belongs to one
	claim        *pb.Claim          // with which the attempt began
	heldMessages []tree.Message     // of its transcript, which the worker held already
	knownOrdinal int32              // of the last message that the worker has
	toBackground chan int           // ordinals of messages whose commands go to the background
	onLost       context.CancelFunc // cancels the attempt when it is lost; nil: nobody executes it yet
}

// beginAttempt makes an attempt the current one, unless the connection is closed. The caller holds
// mu.
func (c *conn) beginAttempt(claim *pb.Claim, held []tree.Message, onLost context.CancelFunc) {
	c.attempt = attempt{number: c.attempt.number + 1, claim: claim, heldMessages: held, toBackground: make(chan int, 1), onLost: onLost}
	c.attemptOver, c.claimPending = c.closed, false
}

// beginClaimed begins an attempt that belongs to this worker already. onLost is called when it is
// lost.
func (c *conn) beginClaimed(onLost context.CancelFunc, claim *pb.Claim) *journal {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.beginAttempt(claim, nil, onLost)
	return newJournal(c)
}

func (c *conn) isAttemptOver() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.attemptOver
}

// isCurrent reports whether the attempt of a journal is still in progress.
func (c *conn) isCurrent(j *journal) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.attemptOver && c.attempt.number == j.attemptNumber
}

// sessionID returns the session of the current attempt.
func (c *conn) sessionID() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.attempt.claim.GetSessionId()
}

// backgroundRequests returns a channel of ordinals of messages whose commands should continue in
// the background.
func (c *conn) backgroundRequests() <-chan int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.attempt.toBackground
}

// requestBackground asks the current attempt to let the commands of a message continue in the
// background. It never blocks: only the latest message counts.
func (c *conn) requestBackground(ordinal int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.attempt.toBackground == nil {
		return
	}
	select {
	case <-c.attempt.toBackground:
	default:
	}
	c.attempt.toBackground <- ordinal
}
