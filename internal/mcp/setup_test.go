package mcp

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"go.uber.org/goleak"

	"github.com/coppice-run/coppice/internal/sandbox"
	"github.com/coppice-run/coppice/internal/tool"
)

// asServer makes the test binary a server; its value says what is special about it.
const asServer = "COPPICE_MCP_TEST_SERVER"

func TestMain(m *testing.M) {
	if kind := os.Getenv(asServer); kind != "" {
		if err := serveStdio(kind); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

func serveStdio(kind string) error {
	switch kind {
	case "greets":
		fmt.Println("Welcome to the server!\n{\"level\":\"info\"}\n[not json\n[]\n[1]\n{\n{\"jsonrpc\":\"2.0\",\"id\":{}}")
	case "babbles":
		fmt.Fprintln(os.Stderr, "the token is "+os.Getenv("TOKEN"))
		fmt.Fprint(os.Stderr, strings.Repeat(strings.Repeat("x", 100_000)+"\n", 200))
	case "mute":
		select {}
	case "broken":
		fmt.Fprintln(os.Stderr, "no such module")
		os.Exit(3)
	case "strict": // it ends unless it is greeted in the old way
		in := bufio.NewReader(os.Stdin)
		if head, err := in.Peek(60); err != nil || !bytes.Contains(head, []byte(`"method":"init`)) {
			return fmt.Errorf("greeted in a new way: %s", head)
		}
		return newTestServer().Run(context.Background(), &sdk.IOTransport{Reader: io.NopCloser(in), Writer: os.Stdout})
	case "floods": // it pings once it is connected, and reads nothing any more
		in := &firstLines{from: os.Stdin, lines: 3, then: func() { _, _ = io.Copy(os.Stdout, &pings{}) }}
		return newTestServer().Run(context.Background(), &sdk.IOTransport{Reader: in, Writer: os.Stdout})
	case "floods at once":
		_, err := io.Copy(os.Stdout, &pings{})
		return err
	case "deaf": // it reads nothing any more once it is connected
		in := &firstLines{from: os.Stdin, lines: 3}
		return newTestServer().Run(context.Background(), &sdk.IOTransport{Reader: in, Writer: os.Stdout})
	}
	return newTestServer().Run(context.Background(), &sdk.StdioTransport{})
}

// pings is an endless series of requests, one on each line.
type pings struct{ n int }

func (p *pings) Read(data []byte) (int, error) {
	p.n++
	return copy(data, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"ping"}`+"\n", p.n)), nil
}

// firstLines reads some lines, does something else, and then waits for ever.
type firstLines struct {
	from  *os.File
	lines int
	then  func()
}

func (f *firstLines) Close() error { return nil }

func (f *firstLines) Read(p []byte) (int, error) {
	if f.lines == 0 {
		if f.then != nil {
			f.then()
		}
		select {}
	}
	n, err := f.from.Read(p[:1])
	if n == 1 && p[0] == '\n' {
		f.lines--
	}
	return n, err
}

// raw is a tool whose handler gets its input as it was sent.
type raw func(ctx context.Context, input json.RawMessage) (*sdk.CallToolResult, error)

func addRaw(s *sdk.Server, t *sdk.Tool, f raw) {
	if t.InputSchema == nil {
		t.InputSchema = json.RawMessage(`{"type":"object"}`)
	}
	s.AddTool(t, func(ctx context.Context, req *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		return f(ctx, req.Params.Arguments)
	})
}

func says(format string, args ...any) (*sdk.CallToolResult, error) {
	return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: fmt.Sprintf(format, args...)}}}, nil
}

// coded answers with an error of the code that is asked for.
func coded(called func()) raw {
	return func(_ context.Context, input json.RawMessage) (*sdk.CallToolResult, error) {
		called()
		var in struct{ Code int64 }
		if err := json.Unmarshal(input, &in); err != nil {
			return nil, err
		}
		return nil, &jsonrpc.Error{Code: in.Code, Message: "no seats are left"}
	}
}

// newTestServer makes a real server whose tools do what goes right and wrong.
func newTestServer() *sdk.Server {
	s := sdk.NewServer(&sdk.Implementation{Name: "test", Version: "1"}, nil)
	for name, f := range map[string]raw{
		"echo": func(_ context.Context, input json.RawMessage) (*sdk.CallToolResult, error) { return says("%s", input) },
		"fail": func(context.Context, json.RawMessage) (*sdk.CallToolResult, error) {
			result, err := says("it went wrong with %s", os.Getenv("TOKEN"))
			result.IsError = true
			return result, err
		},
		"refuse": func(context.Context, json.RawMessage) (*sdk.CallToolResult, error) {
			return nil, fmt.Errorf("refused for %s", os.Getenv("TOKEN"))
		},
		"code": coded(func() { fmt.Fprintln(os.Stderr, "called with a code") }),
		"huge": func(context.Context, json.RawMessage) (*sdk.CallToolResult, error) {
			return says("begin\n%s\nend", strings.Repeat("0123456789\n", 50_000))
		},
		"die":   func(context.Context, json.RawMessage) (*sdk.CallToolResult, error) { os.Exit(7); return nil, nil },
		"close": func(context.Context, json.RawMessage) (*sdk.CallToolResult, error) { os.Stdout.Close(); select {} },
		"flood": func(context.Context, json.RawMessage) (*sdk.CallToolResult, error) {
			chunk := bytes.Repeat([]byte("x"), 1<<20)
			for {
				os.Stdout.Write(chunk)
			}
		},
		"hang": func(context.Context, json.RawMessage) (*sdk.CallToolResult, error) { select {} },
		"until_cancelled": func(ctx context.Context, _ json.RawMessage) (*sdk.CallToolResult, error) {
			fmt.Fprintln(os.Stderr, "waiting")
			<-ctx.Done()
			fmt.Fprintln(os.Stderr, "cancelled it is")
			return says("cancelled")
		},
		"pid": func(context.Context, json.RawMessage) (*sdk.CallToolResult, error) { return says("%d", os.Getpid()) },
		// It gives where it runs and what is there, and puts a file beside.
		"work": func(context.Context, json.RawMessage) (*sdk.CallToolResult, error) {
			dir, err := os.Getwd()
			if err != nil {
				return nil, err
			}
			found, err := filepath.Glob("*")
			if err != nil {
				return nil, err
			}
			if err := os.WriteFile("left", nil, 0o600); err != nil {
				return nil, err
			}
			return says("%s: %s", dir, strings.Join(found, " "))
		},
		"leave": func(context.Context, json.RawMessage) (*sdk.CallToolResult, error) {
			cmd := exec.Command("sleep", "1000")
			if err := cmd.Start(); err != nil {
				return nil, err
			}
			return says("%d", cmd.Process.Pid)
		},
	} {
		addRaw(s, &sdk.Tool{Name: name, Description: "Does " + name + "."}, f)
	}
	addRaw(s, &sdk.Tool{Name: "grow", Annotations: &sdk.ToolAnnotations{ReadOnlyHint: true}}, func(context.Context, json.RawMessage) (*sdk.CallToolResult, error) {
		addRaw(s, &sdk.Tool{Name: "grown"}, func(context.Context, json.RawMessage) (*sdk.CallToolResult, error) { return says("grown") })
		return says("grows")
	})
	return s
}

// quick is times for tests.
func quick() times {
	return times{
		connect: time.Minute, settle: time.Minute, back: time.Minute, pause: 10 * time.Millisecond,
		pauses: 100 * time.Millisecond, stable: time.Hour, probe: time.Minute, write: time.Minute, close: 200 * time.Millisecond,
		list: time.Hour,
	}
}

// stdio is the test binary as a server.
func stdio(kind string) Server {
	return Server{Name: "s", Command: os.Args[0], Env: []string{asServer + "=" + kind}, Timeout: time.Minute}
}

// unbounded lets the race detector reserve what it wants.
const unbounded = 1 << 60

// kept is servers being kept, and what they log.
type kept struct {
	*Servers
	t    *testing.T
	log  *lockedBuffer
	stop func()
}

func keep(t *testing.T, tt times, servers ...Server) *kept {
	t.Helper()
	return keepIn(t, sandbox.Required, tt, servers...)
}

// keepIn keeps servers in a sandbox of a mode: off, their processes can be seen.
func keepIn(t *testing.T, mode sandbox.Mode, tt times, servers ...Server) *kept {
	t.Helper()
	return keepWith(t, Config{Servers: servers, Sandbox: box(t, mode), Workspace: t.TempDir(), times: tt})
}

func box(t *testing.T, mode sandbox.Mode) *sandbox.Sandbox {
	t.Helper()
	made, err := sandbox.New(sandbox.Config{
		Mode: mode, Environ: []string{"PATH=" + os.Getenv("PATH")}, Readable: []string{os.Args[0]},
		Limits: sandbox.Limits{AddressSpace: unbounded, Memory: unbounded},
	})
	if err != nil {
		t.Fatal(err)
	}
	return made
}

func keepWith(t *testing.T, c Config) *kept {
	t.Helper()
	k := &kept{t: t, log: &lockedBuffer{}}
	c.Logger = slog.New(slog.NewTextHandler(k.log, nil))
	var err error
	k.Servers, err = New(c)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { k.Run(ctx) })
	k.stop = sync.OnceFunc(func() {
		cancel()
		running.Wait()
	})
	t.Cleanup(k.stop)
	return k
}

func all(string) bool { return true }

// tool finds one of the tools that there are.
func (k *kept) tool(name string) tool.Tool {
	k.t.Helper()
	tools, missing := k.Tools(context.Background(), all)
	found, ok := tool.Lookup(tools, name)
	if !ok {
		k.t.Fatalf("no tool is named %s among %d; missing: %v\n%s", name, len(tools), missing, k.log)
	}
	return found
}

// call calls a tool of the server s.
func (k *kept) call(own, input string) tool.Done {
	k.t.Helper()
	return k.callOf("s", own, input)
}

func (k *kept) callOf(server, own, input string) tool.Done {
	k.t.Helper()
	return k.tool("mcp__"+server+"__"+own).Call(context.Background(), tool.Call{Input: json.RawMessage(input)}).(tool.Done)
}

// eventually waits for what has to come about.
func (k *kept) eventually(what string, holds func() bool) {
	k.t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); !holds(); {
		if time.Now().After(deadline) {
			k.t.Fatalf("in vain waited until %s\n%s", what, k.log)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func (k *kept) logged(text string) {
	k.t.Helper()
	k.eventually("the log has "+text, func() bool { return strings.Contains(k.log.String(), text) })
}

type lockedBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// overHTTP serves a server by HTTP; handle may answer requests before it does.
func overHTTP(t *testing.T, s *sdk.Server, handle func(w http.ResponseWriter, r *http.Request) bool) *httptest.Server {
	t.Helper()
	handler := sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return s }, nil)
	ts := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if handle == nil || !handle(w, r) {
			handler.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(func() {
		ts.Close()
		closeSessions(s)
	})
	return ts
}

// closeSessions ends the sessions of clients that went away without a word.
func closeSessions(s *sdk.Server) {
	for session := range s.Sessions() {
		_ = session.Close() // it may be over already
	}
}

func alive(pid int) bool { return syscall.Kill(pid, 0) == nil }
