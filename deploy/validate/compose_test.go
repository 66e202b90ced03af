package validate_test

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/compose-spec/compose-go/v2/loader"
	"github.com/compose-spec/compose-go/v2/types"
)

// given is what the compose file asks of the environment.
func given() types.Mapping {
	return types.Mapping{
		"POSTGRES_PASSWORD": "p", "REDIS_PASSWORD": "r", "REDIS_WORKER_PASSWORD": "w", "COPPICE_TOKENS_DIR": "/tokens", "COPPICE_WORKER_TOKEN": "t",
	}
}

func load(t *testing.T, environment types.Mapping) (*types.Project, error) {
	t.Helper()
	return loader.LoadWithContext(t.Context(), types.ConfigDetails{
		WorkingDir: "..", ConfigFiles: []types.ConfigFile{{Filename: "../compose.yaml"}}, Environment: environment,
	})
}

// TestCompose loads the file as engines do, with the schema of the specification.
func TestCompose(t *testing.T) {
	t.Parallel()
	project, err := load(t, given())
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"jaeger", "orchestrator-1", "orchestrator-2", "postgres", "redis", "worker-1", "worker-2"}
	if names := project.ServiceNames(); !slices.Equal(slices.Sorted(slices.Values(names)), want) {
		t.Errorf("services %v", names)
	}
	for name, s := range project.Services {
		if s.HealthCheck == nil || len(s.HealthCheck.Test) < 2 {
			t.Errorf("%s has no health check", name)
		}
		for _, p := range s.Ports {
			if p.HostIP != "127.0.0.1" {
				t.Errorf("%s is reached from other machines: %+v", name, p)
			}
		}
		if !strings.HasPrefix(name, "orchestrator") && !strings.HasPrefix(name, "worker") {
			if !strings.Contains(s.Image, ":") || strings.HasSuffix(s.Image, ":latest") {
				t.Errorf("%s is of any version: %s", name, s.Image)
			}
			continue
		}
		if !s.ReadOnly || !slices.Equal(s.CapDrop, []string{"ALL"}) || !slices.Contains(s.SecurityOpt, "no-new-privileges:true") {
			t.Errorf("%s is not confined", name)
		}
		if port := s.Environment["COPPICE_ALIVE_LISTEN"]; strings.HasPrefix(name, "worker") && (port == nil || *port != fmt.Sprint(":", alivePort)) {
			t.Errorf("orchestrators can't ask %s whether it lives: %v", name, port)
		}
		grace := map[bool]string{true: "15s", false: "20s"}[strings.HasPrefix(name, "worker")]
		if s.StopGracePeriod == nil || s.StopGracePeriod.String() != grace {
			t.Errorf("%s is killed after %v", name, s.StopGracePeriod)
		}
	}
	for name, s := range project.Services {
		checkService(t, name, s)
	}
	for name := range given() {
		left := given()
		delete(left, name)
		if _, err := load(t, left); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("without %s: %v", name, err)
		}
	}
}

// checkService checks what the programs are told where they are mounted what.
func checkService(t *testing.T, name string, s types.ServiceConfig) {
	t.Helper()
	told := func(variable string) string {
		if v := s.Environment[variable]; v != nil {
			return *v
		}
		return ""
	}
	mounted := map[string]types.ServiceVolumeConfig{}
	for _, v := range s.Volumes {
		mounted[v.Target] = v
	}
	program, _, _ := strings.Cut(name, "-")
	switch program {
	case "orchestrator":
		// A file that is mounted by itself stays the one that it was when it is replaced.
		if v, there := mounted[path.Dir(told("COPPICE_TOKENS"))]; !there || v.Source != "/tokens" || !v.ReadOnly || len(s.Secrets) > 0 {
			t.Errorf("%s has its tokens at %q, and mounted are %v and %v", name, told("COPPICE_TOKENS"), mounted, s.Secrets)
		}
	case "worker":
		if _, there := mounted[told("COPPICE_WORKSPACES")]; !there || told("COPPICE_WORKSPACE") != "" {
			t.Errorf("sessions of all tenants work in one directory of %s", name)
		}
	default:
		return
	}
	// Jaeger takes traces and nothing else.
	if told("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") != "http://jaeger:4317" || told("OTEL_EXPORTER_OTLP_ENDPOINT") != "" {
		t.Errorf("%s sends to %q and %q", name, told("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"), told("OTEL_EXPORTER_OTLP_ENDPOINT"))
	}
	if told("COPPICE_METRICS_LISTEN") != fmt.Sprint(":", metricsPort) {
		t.Errorf("%s has its metrics at %q", name, told("COPPICE_METRICS_LISTEN"))
	}
}
