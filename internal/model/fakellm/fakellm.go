// Package fakellm serves a model over Anthropic's Messages API and over OpenAI's Responses and
// chat completions APIs, and can inject faults. It is for tests and demos. It rejects requests
// that the real servers would reject, so an adapter that works with it uses the protocol
// correctly.
package fakellm

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/coppice-run/coppice/internal/model"
	"github.com/coppice-run/coppice/internal/model/upstream"
	"github.com/coppice-run/coppice/internal/tree"
)

// Config configures a server.
type Config struct {
	Model model.Model
	// Rate is how many requests are accepted per second, and how many at once. Others get
	// status 429. 0 means no limit.
	Rate float64
	// Fault returns the fault of the n-th accepted request, counted from 1. Optional.
	Fault func(n int64) Fault
}

// Server serves all three APIs. It implements [http.Handler].
type Server struct {
	config Config
	mux    *http.ServeMux
	limit  *limit
	cache  cache
	counts struct{ taken, limited, whole atomic.Int64 }
}

// Counts are the numbers of requests so far.
type Counts struct {
	Accepted  int64 // accepted by the rate limit
	Limited   int64 // refused by the rate limit
	Completed int64 // answered completely
}

// New returns a server.
func New(c Config) *Server {
	if c.Fault == nil {
		c.Fault = func(int64) Fault { return Fault{} }
	}
	s := &Server{config: c, mux: http.NewServeMux(), limit: newLimit(c.Rate), cache: cache{used: map[prefixKey]time.Time{}}}
	s.mux.HandleFunc("POST /v1/messages", func(w http.ResponseWriter, r *http.Request) { s.serve(w, r, messages{}) })
	s.mux.HandleFunc("POST /v1/chat/completions", func(w http.ResponseWriter, r *http.Request) { s.serve(w, r, completions{}) })
	s.mux.HandleFunc("POST /v1/responses", func(w http.ResponseWriter, r *http.Request) { s.serve(w, r, responses{}) })
	return s
}

// ServeHTTP answers a request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.mux.ServeHTTP(w, r) }

// Counts returns the counts.
func (s *Server) Counts() Counts {
	return Counts{Accepted: s.counts.taken.Load(), Limited: s.counts.limited.Load(), Completed: s.counts.whole.Load()}
}

// wire is one of the APIs.
type wire interface {
	// read parses a request. The error says why the real server would reject it.
	read(body []byte) (*model.Request, error)
	// refusal is the response body for a status other than success.
	refusal(status int, message string) any
	// begin starts the event stream of an answer.
	begin(out *events, model string) answer
}

// answer writes the events of an answer, in order.
type answer interface {
	delta(d model.Delta)
	finish(a *model.Answer)
	// fail writes the event with which the real server breaks an answer off.
	fail(status int, message string)
}

// maxRequest bounds a request, in bytes.
const maxRequest = 64 << 20

func (s *Server) serve(w http.ResponseWriter, r *http.Request, api wire) {
	if wait := s.limit.take(time.Now()); wait > 0 {
		s.counts.limited.Add(1)
		refuse(w, api, http.StatusTooManyRequests, wait, "too many requests")
		return
	}
	trouble := s.config.Fault(s.counts.taken.Add(1))
	if trouble.Status != 0 {
		refuse(w, api, trouble.Status, trouble.RetryAfter, "so the trouble goes")
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxRequest))
	if err != nil {
		refuse(w, api, http.StatusRequestEntityTooLarge, 0, err.Error())
		return
	}
	req, err := api.read(body)
	if err == nil {
		err = caller(r.Header, req)
	}
	if err != nil {
		refuse(w, api, http.StatusBadRequest, 0, err.Error())
		return
	}
	out := &events{w: w, flush: http.NewResponseController(w), ended: r.Context().Done(), fault: trouble}
	p := &play{out: out, begin: func() answer { return api.begin(out, req.Model) }}
	if marking, ok := api.(cachingAPI); ok {
		if err := s.caching(p, marking, body); err != nil {
			refuse(w, api, http.StatusBadRequest, 0, err.Error())
			return
		}
	}
	s.play(r, req, p, api)
}

// caching makes the prompt cacheable when its answer starts, and looks up what is cached
// already.
func (s *Server) caching(p *play, api cachingAPI, body []byte) error {
	prompt, err := api.prompt(body)
	if err != nil {
		return err
	}
	p.usage = s.cache.usage(&prompt, time.Now())
	begin := p.begin
	p.begin = func() answer {
		s.cache.answerStarted(&prompt, time.Now())
		return begin()
	}
	return nil
}

// play is an answer that starts when there is something to write.
type play struct {
	out    *events
	begin  func() answer
	answer answer     // nil before it has started
	usage  tree.Usage // usage of the cache, if there is one
}

func (p *play) begun() answer {
	if p.answer == nil {
		p.answer = p.begin()
	}
	return p.answer
}

// play lets the model answer.
func (s *Server) play(r *http.Request, req *model.Request, p *play, api wire) {
	t := p.out.fault
	if t.Padding > 0 {
		p.begun().delta(model.Delta{Text: padding(t.Padding)})
	}
	silent := true
	emit := func(d model.Delta) {
		silent = false
		p.begun().delta(d)
	}
	answer, err := s.config.Model.Generate(r.Context(), req, emit)
	if err == nil && silent {
		emitAll(answer, emit)
	}
	var failed *model.Error
	switch {
	case errors.As(err, &failed) && p.answer == nil:
		refuse(p.out.w, api, statusOf(failed.Kind), failed.RetryAfter, failed.Error())
	case err != nil:
		p.begun().fail(http.StatusServiceUnavailable, err.Error())
	case t.BreakOff != 0:
		p.begun().fail(t.BreakOff, "so the trouble goes")
	default:
		if t.Malformed {
			answer = malformed(answer)
		}
		p.begun().finish(withUsage(answer, p.usage))
		if !p.out.aborted {
			s.counts.whole.Add(1)
		}
	}
}

// emitAll emits the texts of an answer that was not streamed.
func emitAll(a *model.Answer, emit func(model.Delta)) {
	for _, b := range a.Blocks {
		switch b := b.(type) {
		case tree.Thinking:
			emit(model.Delta{Text: b.Text, Thinking: true})
		case tree.Text:
			emit(model.Delta{Text: b.Text})
		}
	}
}

// malformed returns an answer with invalid JSON as the inputs of its calls.
func malformed(a *model.Answer) *model.Answer {
	out := *a
	out.Blocks = nil
	for _, b := range a.Blocks {
		if use, ok := b.(tree.ToolUse); ok {
			use.Input = json.RawMessage(string(use.Input[:len(use.Input)-1]) + `, "oops`)
			b = use
		}
		out.Blocks = append(out.Blocks, b)
	}
	return &out
}

// caller reads the headers that identify the caller.
func caller(h http.Header, req *model.Request) error {
	req.Agent = h.Get(upstream.HeaderAgent)
	for name, take := range map[string]func(string) error{
		upstream.HeaderSession: func(s string) (err error) { req.Session, err = tree.ParseID[tree.Session](s); return err },
		upstream.HeaderTask:    func(s string) (err error) { req.Task, err = tree.ParseID[tree.Task](s); return err },
		upstream.HeaderDepth:   func(s string) (err error) { req.Depth, err = strconv.Atoi(s); return err },
	} {
		if text := h.Get(name); text != "" {
			if err := take(text); err != nil {
				return fmt.Errorf("the header %s: %w", name, err)
			}
		}
	}
	return nil
}

func refuse(w http.ResponseWriter, api wire, status int, after time.Duration, message string) {
	if after > 0 {
		seconds := int64((after + time.Second - 1) / time.Second)
		w.Header().Set("Retry-After", strconv.FormatInt(seconds, 10))
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	text, err := json.Marshal(api.refusal(status, message))
	if err == nil {
		_, err = w.Write(text)
	}
	if err != nil {
		panic(http.ErrAbortHandler) // the client has left
	}
}

func statusOf(k model.ErrorKind) int {
	switch k {
	case model.ErrorInvalid, model.ErrorTooLong:
		return http.StatusBadRequest
	case model.ErrorAuth:
		return http.StatusUnauthorized
	case model.ErrorRateLimited:
		return http.StatusTooManyRequests
	case model.ErrorOverloaded:
		return http.StatusServiceUnavailable
	}
	return http.StatusInternalServerError
}
