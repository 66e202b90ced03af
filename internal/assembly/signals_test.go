package assembly_test

import (
	"net"
	"syscall"
	"testing"

	pb "github.com/coppice-run/coppice/internal/gen/coppice/v1"
)

// TestASecondSignalEndsADrain of a worker that could go on with its run for long; it ends in
// good order.
func TestASecondSignalEndsADrain(t *testing.T) {
	t.Parallel()
	d := deploy(t, `steps: [{delay: 1h, text: late}]`)
	d.workerFlags = []string{"--drain-for", (3 * stopPatience).String()}
	d.startOrchestrator(0)
	d.startWorker("worker 1")
	c := d.client()
	c.events(c.create("go").GetId(), func(e *pb.Event) bool { return e.GetDispatched() != nil })
	if err := d.processes["worker 1"].Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	d.logged("INFO", "draining")
	d.terminate("worker 1")
	if n := d.times("drained: all runs of the worker have ended"); n > 0 {
		t.Error("its run is said to have ended")
	}
}

// TestFurtherSignalsKill processes that take long to stop, here as what measures them does
// not answer.
func TestFurtherSignalsKill(t *testing.T) {
	t.Parallel()
	for name, serving := range map[string]string{"orchestrator 1": "serving", "worker 1": "working"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			silent, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			defer silent.Close()
			d := deploy(t, `steps: [{text: done}]`)
			d.environ = map[string][]string{"": {"OTEL_EXPORTER_OTLP_ENDPOINT=http://" + silent.Addr().String()}}
			d.startOrchestrator(0)
			d.startWorker("worker 1")
			d.logged("INFO", serving)
			cmd := d.processes[name]
			delete(d.processes, name)
			ended := make(chan error, 1)
			go func() { ended <- cmd.Wait() }()
			until(t, name+" has ended", func() bool { return cmd.Process.Signal(syscall.SIGTERM) != nil })
			err = <-ended
			if status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); !ok || status.Signal() != syscall.SIGTERM {
				t.Errorf("it was not killed: %v", err)
			}
		})
	}
}
