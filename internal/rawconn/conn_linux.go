package rawconn

import (
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"unsafe"

	"google.golang.org/grpc/mem"
)

// conn is a TCP or Unix connection that reads and writes with raw system calls.
type conn struct {
	net.Conn
	raw syscall.RawConn
	in  input
	out output
}

// input is a read in progress.
type input struct {
	mu      sync.Mutex
	attempt func(fd uintptr) (done bool) // a field, so that a read allocates nothing
	into    []byte
	size    int            // of the buffer that is taken from the pool for the read
	pool    mem.BufferPool // nil: the read is into a given buffer
	taken   *[]byte
	n       int
	errno   syscall.Errno
}

// output is a write in progress.
type output struct {
	mu      sync.Mutex
	attempt func(fd uintptr) (done bool)
	rest    []byte
	errno   syscall.Errno
}

func newConn(c net.Conn, raw syscall.RawConn) *conn {
	r := &conn{Conn: c, raw: raw}
	r.in.attempt, r.out.attempt = r.in.read, r.out.write
	return r
}

func (c *conn) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	c.in.mu.Lock()
	defer c.in.mu.Unlock()
	c.in.into, c.in.n, c.in.errno = p, 0, 0
	defer func() { c.in.into = nil }()
	err := c.readError(c.raw.Read(c.in.attempt))
	return c.in.n, err
}

// ReadOnReady is [conn.Read] into a buffer of a pool. It takes the buffer when there is something
// to read, so gRPC holds no buffer for an idle connection.
func (c *conn) ReadOnReady(size int, pool mem.BufferPool) (*[]byte, int, error) {
	c.in.mu.Lock()
	defer c.in.mu.Unlock()
	c.in.size, c.in.pool, c.in.n, c.in.errno = size, pool, 0, 0
	defer func() { c.in.pool, c.in.taken = nil, nil }()
	if err := c.readError(c.raw.Read(c.in.attempt)); err != nil {
		if c.in.taken != nil {
			pool.Put(c.in.taken)
		}
		return nil, 0, err
	}
	return c.in.taken, c.in.n, nil
}

// readError gives what a read returns, after an attempt or instead of one.
func (c *conn) readError(err error) error {
	switch {
	case err != nil:
		return c.failed("read", err)
	case c.in.errno != 0:
		return c.failed("read", os.NewSyscallError("read", c.in.errno))
	case c.in.n == 0:
		return io.EOF
	}
	return nil
}

// read tries to read, and reports whether the read is over.
func (i *input) read(fd uintptr) (done bool) {
	if i.pool != nil {
		i.taken = i.pool.Get(i.size)
		i.into = *i.taken
	}
	n, errno := retried(func() (uintptr, uintptr, syscall.Errno) {
		return syscall.RawSyscall(syscall.SYS_READ, fd, uintptr(unsafe.Pointer(unsafe.SliceData(i.into))), uintptr(len(i.into)))
	})
	i.n, i.errno = n, errno
	if i.pool != nil {
		i.into = nil
		if errno != 0 {
			i.pool.Put(i.taken)
			i.taken = nil
		}
	}
	return errno != syscall.EAGAIN
}

func (c *conn) Write(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	c.out.mu.Lock()
	defer c.out.mu.Unlock()
	c.out.rest, c.out.errno = p, 0
	defer func() { c.out.rest = nil }()
	err := c.raw.Write(c.out.attempt)
	n := len(p) - len(c.out.rest)
	switch {
	case err != nil:
		return n, c.failed("write", err)
	case c.out.errno != 0:
		return n, c.failed("write", os.NewSyscallError("write", c.out.errno))
	}
	return n, nil
}

// write tries to write all that is left, and reports whether the write is over.
func (o *output) write(fd uintptr) (done bool) {
	for len(o.rest) > 0 {
		var n int
		n, o.errno = retried(func() (uintptr, uintptr, syscall.Errno) {
			return syscall.RawSyscall(syscall.SYS_WRITE, fd, uintptr(unsafe.Pointer(unsafe.SliceData(o.rest))), uintptr(len(o.rest)))
		})
		if o.errno != 0 {
			return o.errno != syscall.EAGAIN
		}
		o.rest = o.rest[n:]
	}
	return true
}

// retried makes a system call until no signal interrupts it.
func retried(call func() (uintptr, uintptr, syscall.Errno)) (int, syscall.Errno) {
	for {
		n, _, errno := call()
		switch errno {
		case 0:
			return int(n), 0
		case syscall.EINTR:
		default:
			return 0, errno
		}
	}
}

// failed gives an error the form that a connection of package net gives it.
func (c *conn) failed(op string, err error) error {
	if raw, is := errors.AsType[*net.OpError](err); is {
		err = raw.Err
	}
	return &net.OpError{Op: op, Net: c.LocalAddr().Network(), Source: c.LocalAddr(), Addr: c.RemoteAddr(), Err: err}
}
