package tickwheeltest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	tickwheel "github.com/tickwheel/tickwheel/clients/go"
)

// Fake is a server in memory, on a manual clock, for unit tests. The ordinary client and worker use
// it through [Fake.Client]; no socket is opened.
//
// It has jobs, keys, leases, retries, batches, idempotency keys, pauses and the clock. It does not
// have schedules, settings, pacing, events and follow-ups, keeps no finished jobs except dead ones,
// and validates little. Requests for the rest fail with the code "not-in-fake". Use [Start] for
// these.
type Fake struct {
	mu      sync.Mutex
	changed chan struct{} // closed and replaced when a job may have become ready
	now     int64
	made    uint64
	jobs    map[string]*fakeJob
	paused  map[string]bool
	queues  map[string]bool
	replays map[string]replay
}

type replay struct {
	body   string
	answer answer
}

type fakeJob struct {
	tickwheel.Job
	order uint64 // of insertion
	token string
}

// NewFake returns a fake without jobs.
func NewFake() *Fake {
	return &Fake{
		changed: make(chan struct{}), now: 1_767_323_045_678, jobs: map[string]*fakeJob{},
		paused: map[string]bool{}, queues: map[string]bool{}, replays: map[string]replay{},
	}
}

// Client returns a client of the fake.
func (f *Fake) Client(t testing.TB, options ...tickwheel.Option) *tickwheel.Client {
	t.Helper()
	options = append([]tickwheel.Option{tickwheel.WithHTTPClient(&http.Client{Transport: f})}, options...)
	client, err := tickwheel.New("http://fake", options...)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// Advance advances the clock: jobs become ready, and leases expire.
func (f *Fake) Advance(by time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.now += by.Milliseconds()
	f.wake()
}

// Jobs returns the jobs of the queue, by due time.
func (f *Fake) Jobs(queue string) []tickwheel.Job {
	f.mu.Lock()
	defer f.mu.Unlock()
	list := []tickwheel.Job{}
	for _, job := range f.sorted(queue) {
		list = append(list, job.Job)
	}
	return list
}

// RoundTrip answers a request. It makes the fake an http.RoundTripper.
func (f *Fake) RoundTrip(r *http.Request) (*http.Response, error) {
	var body []byte
	if r.Body != nil {
		defer r.Body.Close()
		var err error
		if body, err = io.ReadAll(r.Body); err != nil {
			return nil, err
		}
	}
	result, err := f.answer(r, body)
	if err != nil {
		return nil, err
	}
	data, err := json.Marshal(result.body)
	if err != nil {
		return nil, err
	}
	return &http.Response{
		StatusCode: result.status, Status: fmt.Sprintf("%d %s", result.status, http.StatusText(result.status)),
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: http.Header{"Content-Type": {"application/json"}},
		Body: io.NopCloser(bytes.NewReader(data)), ContentLength: int64(len(data)), Request: r,
	}, nil
}

type answer struct {
	status int
	body   any
}

type fields = map[string]any

func (f *Fake) answer(r *http.Request, body []byte) (answer, error) {
	key := r.Header.Get("Idempotency-Key")
	var call fakeCall
	if len(body) > 0 {
		if err := json.Unmarshal(body, &call); err != nil {
			return refusal(&tickwheel.Problem{Status: 400, Code: "malformed-json", Detail: err.Error()}), nil
		}
	}
	call.body = body
	call.query = r.URL.Query()
	segments := strings.Split(strings.Trim(r.URL.EscapedPath(), "/"), "/")
	for i := range segments {
		segments[i], _ = url.PathUnescape(segments[i])
	}
	if len(segments) == 4 && segments[1] == "queues" && segments[3] == "reserve" {
		return f.reserve(r, segments[2], &call)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if key != "" {
		if old, found := f.replays[key]; found {
			if old.body != string(body) {
				return refusal(problem(422, tickwheel.ErrIdempotencyConflict, "the key was used with another request")), nil
			}
			return old.answer, nil
		}
	}
	result, refused := f.route(r.Method, segments, &call)
	if refused != nil {
		return refusal(refused), nil
	}
	done := answer{200, result}
	if key != "" {
		f.replays[key] = replay{string(body), done}
	}
	return done, nil
}

func refusal(p *tickwheel.Problem) answer { return answer{p.Status, p} }

func problem(status int, code tickwheel.Code, format string, values ...any) *tickwheel.Problem {
	return &tickwheel.Problem{Status: status, Code: code, Detail: fmt.Sprintf(format, values...), RequestID: "fake"}
}

// route performs a request other than reserve.
func (f *Fake) route(method string, path []string, call *fakeCall) (any, *tickwheel.Problem) {
	at := func(i int) string {
		if i < len(path) {
			return path[i]
		}
		return ""
	}
	switch {
	case at(0) == "healthz":
		return fields{"status": "ok", "version": "fake"}, nil
	case at(1) == "clock":
		if at(2) == "advance" {
			f.now += millisOf(call.By)
			f.wake()
		}
		return tickwheel.Clock{Now: tickwheel.Timestamp(f.now), Manual: true}, nil
	case at(1) == "jobs" && at(2) == "batch":
		return f.batch(at(3), call)
	case at(1) == "jobs" && len(path) >= 3:
		return f.onJob(method, f.find(at(2)), at(3), call)
	case at(1) == "queues" && at(3) == "keys" && len(path) >= 5:
		return f.onJob(method, f.findKey(at(2), at(4)), at(5), call)
	case at(1) == "queues" && at(3) == "jobs" && method == "POST":
		call.Queue = at(2)
		return f.put(call)
	case at(1) == "queues" && at(3) == "jobs":
		return f.list(at(2), call)
	case at(1) == "queues":
		return f.onQueue(method, at(2), at(3))
	}
	return nil, problem(501, "not-in-fake", "the fake does not have %s /%s", method, strings.Join(path, "/"))
}

func (f *Fake) batch(verb string, call *fakeCall) (any, *tickwheel.Problem) {
	var list struct{ Items []json.RawMessage }
	if err := json.Unmarshal(call.body, &list); err != nil {
		return nil, problem(400, "malformed-json", "%v", err)
	}
	results := []fields{}
	for _, data := range list.Items {
		var item fakeCall
		err := json.Unmarshal(data, &item)
		item.body = data
		var ok any
		var refused *tickwheel.Problem
		switch {
		case err != nil:
			refused = problem(400, "malformed-json", "%v", err)
		case verb == "":
			ok, refused = f.put(&item)
		case verb == "cancel":
			ok, refused = f.onJob("DELETE", f.find(item.ID), "", &item)
		default:
			ok, refused = f.onJob("POST", f.find(item.ID), verb, &item)
		}
		if refused != nil {
			results = append(results, fields{"error": refused})
		} else {
			results = append(results, fields{"ok": ok})
		}
	}
	return fields{"results": results}, nil
}

// wake lets waiting workers look for ready jobs, after time or jobs have changed.
func (f *Fake) wake() {
	for _, job := range f.jobs {
		if job.State == tickwheel.Leased && int64(job.Lease.Until) <= f.now {
			f.endAttempt(job, int64(job.Due))
		}
		if job.State == tickwheel.Scheduled && int64(job.Due) <= f.now {
			job.State = tickwheel.Ready
		}
	}
	close(f.changed)
	f.changed = make(chan struct{})
}
