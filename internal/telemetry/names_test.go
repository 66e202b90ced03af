package telemetry

import (
	"context"
	"errors"
	"log/slog"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/coppice-run/coppice/internal/model"
	"github.com/coppice-run/coppice/internal/model/fakellm"
	"github.com/coppice-run/coppice/internal/model/provider"
	"github.com/coppice-run/coppice/internal/otlptest"
	"github.com/coppice-run/coppice/internal/tree"
)

// polite answers, unless it is told to refuse.
type polite struct{}

func (polite) Generate(_ context.Context, req *model.Request, _ func(model.Delta)) (*model.Answer, error) {
	if req.Messages[0].Text() == "refuse" {
		return nil, &model.Error{Kind: model.ErrorInvalid, Err: errors.New("as it was told")}
	}
	return &model.Answer{Blocks: []tree.Block{tree.Text{Text: "yes"}}, Stop: tree.StopEndTurn}, nil
}

// TestCallsHaveTheNamesThatAreUsed: a call that names no model, or only a model, has the
// provider and the model that it went to on its span and in the metrics, whether it was answered
// or not.
func TestCallsHaveTheNamesThatAreUsed(t *testing.T) {
	sink := otlptest.Start(t)
	t.Setenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", sink.Endpoint()) // the exporter itself looks there
	m, err := open(t, map[string]string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": sink.Endpoint()})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(fakellm.New(fakellm.Config{Model: polite{}}))
	t.Cleanup(server.Close)
	env := map[string]string{"ANTHROPIC_BASE_URL": server.URL, "OPENAI_BASE_URL": server.URL + "/v1"}
	chosen, err := provider.Choose(provider.Flags{Patience: time.Minute}, func(name string) string { return env[name] }, slog.New(slog.DiscardHandler), nil)
	if err != nil {
		t.Fatal(err)
	}
	asked, err := m.TraceModel(chosen.Model)
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct{ provider, model, text, wantProvider, wantModel string }{
		{"", "", "answer", "anthropic", "claude-sonnet-5-5"},
		{"", "", "refuse", "anthropic", "claude-sonnet-5-5"},
		{"", "openai/oak", "answer", "openai", "oak"},
		{"", "gpt-elm", "refuse", "openai", "gpt-elm"},
		{"openai", "", "answer", "openai", "gpt-5.4"},
		{"anthropic", "ash", "answer", "anthropic", "ash"},
		{"acme", "ivy", "refuse", "acme", "ivy"},
	}
	for i, test := range tests {
		_, err := asked.Generate(t.Context(), &model.Request{
			Provider: test.provider, Model: test.model, Session: tree.SessionID{byte(i + 1)},
			Messages: []tree.Message{{Role: tree.RoleUser, Blocks: []tree.Block{tree.Text{Text: test.text}}}},
		}, nil)
		if refused := test.text == "refuse"; refused != (err != nil) {
			t.Errorf("%+v: %v", test, err)
		}
	}
	bySession := map[string]otlptest.Span{}
	for _, s := range sink.Until("all calls are there", func(spans []otlptest.Span) bool { return len(spans) == len(tests) }) {
		bySession[s.Texts["gen_ai.conversation.id"]] = s
	}
	for i, test := range tests {
		s := bySession[tree.SessionID{byte(i + 1)}.String()]
		if s.Name != "chat "+test.wantModel || s.Texts["gen_ai.provider.name"] != test.wantProvider || s.Texts["gen_ai.request.model"] != test.wantModel {
			t.Errorf("%+v: the span %q has %v", test, s.Name, s.Texts)
		}
	}
	checkNames(t, text(t, m))
}

// checkNames looks for the names of the calls on the page.
func checkNames(t *testing.T, page string) {
	t.Helper()
	for _, want := range []string{
		`error_type="invalid request",gen_ai_operation_name="chat",gen_ai_provider_name="anthropic"`,
		`error_type="invalid request",gen_ai_operation_name="chat",gen_ai_provider_name="openai"`,
		`gen_ai_operation_name="chat",gen_ai_provider_name="anthropic",gen_ai_response_model="claude-sonnet-5-5"`,
		`gen_ai_operation_name="chat",gen_ai_provider_name="openai",gen_ai_response_model="oak"`,
	} {
		if !strings.Contains(page, "\ngen_ai_client_operation_duration_seconds_count{"+want) {
			t.Errorf("not on the page: %s", want)
		}
	}
	if strings.Contains(page, `gen_ai_provider_name="_OTHER"`) {
		t.Error("calls are counted without their provider")
	}
	if t.Failed() {
		t.Log(page)
	}
}
