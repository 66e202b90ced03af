package installation

import (
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
)

// Meter is a proxy between clients and a server that counts the traffic.
type Meter struct {
	listener net.Listener
	server   string
	counts   meterCounts
	open     sync.WaitGroup
	mu       sync.Mutex
	conns    []net.Conn
	closed   bool
}

type meterCounts struct{ up, down, roundTrips, connections atomic.Int64 }

// Counts are the counts so far.
type Counts struct {
	Up, Down    int64 // bytes from clients, from the server
	RoundTrips  int64 // how often the server sent after its client had
	Connections int64
}

// NewMeter listens on an address of its own until Close.
func NewMeter(server string) (*Meter, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	m := &Meter{listener: l, server: server}
	m.open.Go(m.accept)
	return m, nil
}

// Address returns the address for clients.
func (m *Meter) Address() string { return m.listener.Addr().String() }

// Counts returns the counts so far.
func (m *Meter) Counts() Counts {
	return Counts{
		Up: m.counts.up.Load(), Down: m.counts.down.Load(),
		RoundTrips: m.counts.roundTrips.Load(), Connections: m.counts.connections.Load(),
	}
}

// Since returns the difference to earlier counts.
func (c Counts) Since(before Counts) Counts {
	return Counts{
		Up: c.Up - before.Up, Down: c.Down - before.Down,
		RoundTrips: c.RoundTrips - before.RoundTrips, Connections: c.Connections - before.Connections,
	}
}

// Close closes all connections.
func (m *Meter) Close() error {
	err := m.listener.Close()
	m.mu.Lock()
	m.closed = true
	for _, c := range m.conns {
		err = errors.Join(err, ignoreClosed(c.Close()))
	}
	m.mu.Unlock()
	m.open.Wait()
	return err
}

func ignoreClosed(err error) error {
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

// track registers a connection for Close. It returns false if the meter is closed.
func (m *Meter) track(c net.Conn) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.conns = append(m.conns, c)
	return !m.closed
}

func (m *Meter) accept() {
	for {
		client, err := m.listener.Accept()
		if err != nil {
			return
		}
		m.counts.connections.Add(1)
		m.open.Go(func() { m.proxy(client) })
	}
}

// proxy carries one connection until either side ends it.
func (m *Meter) proxy(client net.Conn) {
	defer client.Close() //nolint:errcheck // there is nobody left to tell
	server, err := net.Dial("tcp", m.server)
	if err != nil {
		return
	}
	defer server.Close() //nolint:errcheck // there is nobody left to tell
	if !m.track(client) || !m.track(server) {
		return
	}
	var asked atomic.Bool // the client has sent since the server did
	var up sync.WaitGroup
	up.Go(func() {
		copyCounting(server, client, func(n int) {
			m.counts.up.Add(int64(n))
			asked.Store(true)
		})
		server.Close() //nolint:errcheck // it has nobody left to talk to
	})
	copyCounting(client, server, func(n int) {
		m.counts.down.Add(int64(n))
		if asked.Swap(false) {
			m.counts.roundTrips.Add(1)
		}
	})
	client.Close() //nolint:errcheck // it has nobody left to talk to
	up.Wait()
}

// copyCounting copies until the end of the input.
func copyCounting(to io.Writer, from io.Reader, count func(n int)) {
	buffer := make([]byte, 64<<10)
	for {
		n, err := from.Read(buffer)
		if n > 0 {
			count(n)
			if _, err := to.Write(buffer[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}
