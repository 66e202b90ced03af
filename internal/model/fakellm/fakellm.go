// Package fakellm serves a model over the wires of Anthropic's Messages API and of
// OpenAI's Responses and chat completions, as the real ones do, and makes every trouble on the way
// that there may be. It is for tests and demonstrations: requests that the real
// servers would refuse are refused, so that an adapter that gets on with it has
// spoken properly.
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

// Config says what to serve.
type Config struct {
	Model model.Model
	// Rate is how many requests a second are taken, and how many at once; more are
	// refused with 429. 0: all.
	Rate float64
	// Fault is what goes wrong with the n-th request that was taken, from 1; nil:
	// nothing.
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

// Counts are of the requests so far.
type Counts struct {
	Accepted  int64 // that were not refused for the rate
	Limited   int64 // that were
	Completed int64 // that got all of their answer
}

// New makes a server.
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

// Counts gives the counts.
func (s *Server) Counts() Counts {
	return Counts{Accepted: s.counts.taken.Load(), Limited: s.counts.limited.Load(), Completed: s.counts.whole.Load()}
}

// wire is one of the APIs.
type wire interface {
	// read takes a request apart. The error says why the real server would refuse it.
	read(body []byte) (*model.Request, error)
	// refusal is the body of an answer with a status that is not success.
	refusal(status int, message string) any
	// begin begins the events of an answer.
	begin(out *events, model string) answer
}

// answer writes the events of an answer, in order.
type answer interface {
	delta(d model.Delta)
	finish(a *model.Answer)
	// fail is how the real server says in the middle of an answer that it can't go on.
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

// caching lets a prompt be cached from when its answer begins, and looks what is cached of it already.
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

// play is an answer that begins when there is something to say.
type play struct {
	out    *events
	begin  func() answer
	answer answer     // nil before it has begun
	usage  tree.Usage // of the cache, if there is one
}

func (p *play) begun() answer {
	if p.answer == nil {
		p.answer = p.begin()
	}
	return p.answer
}

// play has the model answer.
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

// emitAll shows the texts of an answer that was not shown while it was made.
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

// malformed gives an answer whose calls have inputs that are no JSON.
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

// caller takes from the headers who asks.
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
		panic(http.ErrAbortHandler) // nobody listens any more
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
