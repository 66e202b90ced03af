package assembly_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/google/uuid"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/reflect/protoreflect"

	pb "github.com/coppice-run/coppice/internal/gen/coppice/v1"
	"github.com/coppice-run/coppice/internal/pgtest"
)

// TestWhatPostgresDoesNotTake puts NUL, which its TEXT does not take, into each string of
// each request of a client. The request is taken, or refused for what it is: it is neither
// for us to look into nor to be tried again.
func TestWhatPostgresDoesNotTake(t *testing.T) {
	t.Parallel()
	a := takeApart(t)
	a.database = pgtest.Start(t).Database(t)
	said := a.listening()
	_, addr := a.orchestrator()
	a.worker(addr, asking, nil)
	c, conn := a.client(addr), a.connect(addr)
	lines := c.export(c.settle("").session, "")
	tried, failures := 0, 0
	try := func(what string, call func() error) {
		t.Helper()
		tried++
		err := call()
		switch status.Code(err) {
		case codes.Internal, codes.Unavailable, codes.Unknown, codes.DeadlineExceeded:
			t.Errorf("%s: %v", what, err)
		}
		if n := loggedFailures(said); n > failures {
			t.Errorf("%s: %d failures are logged", what, n-failures)
			failures = n
		}
	}
	for _, m := range services(c.ctx(), t, conn) {
		if !strings.HasPrefix(string(m.FullName()), "coppice.v1.") || m.Parent().Name() == "WorkerService" {
			continue
		}
		for i := 0; ; i++ {
			b := belongings{session: uuid.NewString(), task: uuid.NewString(), message: uuid.NewString(), approval: uuid.NewString(), agent: "keeper"}
			if _, names := b.request(t, m); names {
				b = c.settle(b.agent)
				if _, err := c.PutAgent(c.ctx(), &pb.PutAgentRequest{Definition: b.definition("d")}); err != nil {
					t.Fatal(err)
				}
			}
			req, _ := b.request(t, m)
			if key := m.Input().Fields().ByName("idempotency_key"); key != nil {
				req.ProtoReflect().Set(key, protoreflect.ValueOfString(uuid.NewString()))
			}
			number := i
			field := spoil(req.ProtoReflect(), &number)
			if field == "" {
				break
			}
			try(fmt.Sprintf("%s with NUL in %s", path(m), field), func() error {
				if opening := req.ProtoReflect().Descriptor().Fields().ByName("opening"); opening != nil {
					_, err := c.imports(req.(*pb.ImportSessionRequest).GetOpening(), lines)
					return err
				}
				resp, err := invoke(c.ctx(), t, conn, m, req)
				if one, ok := resp.(*pb.CreateSessionsResponse); ok && one.GetRefused() != nil {
					return status.Error(codes.Code(one.GetRefused().GetCode()), one.GetRefused().GetMessage())
				}
				return err
			})
		}
	}
	for _, part := range []string{"o", "a", "text", "ls"} {
		try("a transcript with NUL in "+part, func() error {
			_, err := c.imports(&pb.ImportOpening{}, bytes.ReplaceAll(lines, []byte(`"`+part), []byte(`"`+part+`\u0000`)))
			return err
		})
	}
	if tried < 60 {
		t.Errorf("only %d requests were tried", tried)
	}
	t.Logf("%d requests", tried)
}

// loggedFailures counts the errors in a log. A commit that came too late is none: where there is
// little time, that of a heartbeat may.
func loggedFailures(said *logs) (n int) {
	for line := range strings.Lines(said.String()) {
		if strings.Contains(line, "level=ERROR") && !strings.Contains(line, `error="committing: timeout: `) {
			n++
		}
	}
	return n
}

// spoil appends NUL to one of the strings of a message and of those in it, by its number,
// and names its field. If there are not so many it names none, and takes as many as there
// are off the number.
func spoil(m protoreflect.Message, number *int) string {
	const nul = "\x00"
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		f := fields.Get(i)
		mine := f.Kind() == protoreflect.StringKind || f.IsMap()
		if mine && *number > 0 {
			*number--
			continue
		}
		switch {
		case f.IsMap():
			m.Mutable(f).Map().Set(protoreflect.ValueOfString("k"+nul).MapKey(), protoreflect.ValueOfString("v"))
			return string(f.Name())
		case mine && f.IsList():
			m.Mutable(f).List().Append(protoreflect.ValueOfString("ls" + nul))
			return string(f.Name())
		case mine:
			m.Set(f, protoreflect.ValueOfString(m.Get(f).String()+nul))
			return string(f.Name())
		case f.Kind() == protoreflect.MessageKind && !f.IsList() && strings.HasPrefix(string(f.Message().FullName()), "coppice.v1."):
			there := m.Has(f)
			if field := spoil(m.Mutable(f).Message(), number); field != "" {
				return string(f.Name()) + "." + field
			}
			if !there {
				m.Clear(f)
			}
		}
	}
	return ""
}

// TestAPromptWithNULDescribesItsTask: without a description, the first words of a prompt are taken,
// whatever is among them.
func TestAPromptWithNULDescribesItsTask(t *testing.T) {
	t.Parallel()
	c := setup(t, slowOrNot, nil)
	spawned, err := c.SpawnTask(c.ctx(), &pb.SpawnTaskRequest{SessionId: c.create("").GetId(), Agent: "explore", Prompt: "look at a\x00b"})
	if words := spawned.GetTask().GetDescription(); err != nil || !strings.HasPrefix(words, "look at a") || strings.Contains(words, "\x00") {
		t.Errorf("the description is %q, %v", words, err)
	}
}
