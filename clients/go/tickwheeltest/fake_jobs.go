package tickwheeltest

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"time"

	tickwheel "github.com/tickwheel/tickwheel/clients/go"
)

// fakeCall has the fields of all requests that the fake answers.
type fakeCall struct {
	ID          string             `json:"id"`
	Queue       string             `json:"queue"`
	Payload     json.RawMessage    `json:"payload"`
	Text        *string            `json:"text"`
	Base64      []byte             `json:"base64"`
	Delay       *float64           `json:"delay"`
	Due         *float64           `json:"due"`
	Key         string             `json:"key"`
	OnConflict  tickwheel.Conflict `json:"on_conflict"`
	Priority    int8               `json:"priority"`
	Headers     map[string]string  `json:"headers"`
	MaxAttempts int                `json:"max_attempts"`
	Retry       *tickwheel.Retry   `json:"retry"`
	Group       string             `json:"group"`
	Token       string             `json:"token"`
	Result      json.RawMessage    `json:"result"`
	Error       string             `json:"error"`
	Dead        bool               `json:"dead"`
	Lease       *float64           `json:"lease"`
	Limit       int                `json:"limit"`
	Wait        *float64           `json:"wait"`
	By          *float64           `json:"by"`
	Worker      string             `json:"worker"`

	body  []byte
	query url.Values
}

// The defaults of a queue of the real server.
const (
	defaultLease    = 30_000
	defaultAttempts = 10
)

func millisOf(number *float64) int64 {
	if number == nil {
		return 0
	}
	return int64(*number)
}

func (f *Fake) find(id string) *fakeJob { return f.jobs[id] }

// findKey returns the live job with the key.
func (f *Fake) findKey(queue, key string) *fakeJob {
	for _, job := range f.jobs {
		if job.Queue == queue && job.Key == key && key != "" && job.State != tickwheel.Dead {
			return job
		}
	}
	return nil
}

// sorted returns the jobs of the queue in the order of delivery.
func (f *Fake) sorted(queue string) []*fakeJob {
	var list []*fakeJob
	for _, job := range f.jobs {
		if job.Queue == queue {
			list = append(list, job)
		}
	}
	slices.SortFunc(list, func(a, b *fakeJob) int {
		return cmp.Or(cmp.Compare(a.Due, b.Due), cmp.Compare(b.Priority, a.Priority), cmp.Compare(a.order, b.order))
	})
	return list
}

func (f *Fake) put(call *fakeCall) (any, *tickwheel.Problem) {
	if call.Queue == "" {
		return nil, problem(422, tickwheel.ErrMissingField, "queue is missing")
	}
	if call.Payload == nil && call.Text == nil && call.Base64 == nil {
		return nil, problem(422, tickwheel.ErrMissingField, "one of payload, text and base64 is required")
	}
	if call.Delay != nil && *call.Delay < 0 {
		return nil, problem(422, tickwheel.ErrInvalidField, "delay must not be negative, got %v ms", *call.Delay)
	}
	if f.find(call.ID) != nil {
		return nil, problem(409, tickwheel.ErrIDExists, "a job has the id %s", call.ID)
	}
	result := tickwheel.PutResult{Queue: call.Queue, Outcome: tickwheel.Created}
	if old := f.findKey(call.Queue, call.Key); old != nil {
		switch call.OnConflict {
		case tickwheel.Keep:
			result.ID, result.Outcome, result.Due = old.ID, tickwheel.Kept, old.Due
			return result, nil
		case tickwheel.Reject:
			refused := problem(409, tickwheel.ErrKeyExists, "a live job has the key %q", call.Key)
			refused.ID = old.ID
			return nil, refused
		}
		delete(f.jobs, old.ID)
		result.Replaced, result.Outcome = old.ID, tickwheel.Replaced
	}
	f.made++
	job := &fakeJob{order: f.made}
	job.Job = tickwheel.Job{
		ID: call.ID, Queue: call.Queue, State: tickwheel.Scheduled, Key: call.Key, Group: call.Group,
		Priority: call.Priority, Headers: call.typedHeaders(), Payload: call.Payload, Text: call.Text,
		Base64: call.Base64, Created: tickwheel.Timestamp(f.now), MaxAttempts: call.MaxAttempts, Retry: call.Retry,
	}
	if job.ID == "" {
		job.ID = fmt.Sprintf("%08x-0000-7000-8000-%012x", f.now>>16&0xffffffff, f.made)
	}
	job.Due = tickwheel.Timestamp(f.now + millisOf(call.Delay))
	if call.Due != nil {
		job.Due = tickwheel.Timestamp(millisOf(call.Due))
	}
	f.queues[job.Queue] = true
	f.jobs[job.ID] = job
	f.wake()
	result.ID, result.Due = job.ID, job.Due
	return result, nil
}

// typedHeaders returns the headers with the content type, which the server adds where it is missing.
func (call *fakeCall) typedHeaders() map[string]string {
	kind := "application/octet-stream"
	if call.Payload != nil {
		kind = "application/json"
	} else if call.Text != nil {
		kind = "text/plain; charset=utf-8"
	}
	headers := map[string]string{"content-type": kind}
	maps.Copy(headers, call.Headers)
	return headers
}

func (f *Fake) reserve(r *http.Request, queue string, call *fakeCall) (answer, error) {
	f.mu.Lock()
	end := f.now + millisOf(call.Wait)
	for {
		deliveries := f.lease(queue, max(call.Limit, 1), call)
		changed := f.changed
		if len(deliveries) > 0 || f.now >= end {
			f.mu.Unlock()
			return answer{200, fields{"deliveries": deliveries}}, nil
		}
		f.mu.Unlock()
		select {
		case <-changed:
		case <-r.Context().Done():
			return answer{}, r.Context().Err()
		}
		f.mu.Lock()
	}
}

func (f *Fake) lease(queue string, limit int, call *fakeCall) []tickwheel.Delivery {
	deliveries := []tickwheel.Delivery{}
	if f.paused[queue] {
		return deliveries
	}
	for _, job := range f.sorted(queue) {
		if job.State != tickwheel.Ready || len(deliveries) == limit {
			continue
		}
		duration := int64(defaultLease)
		if call.Lease != nil {
			duration = millisOf(call.Lease)
		}
		f.made++
		job.token = fmt.Sprintf("%016x", f.made)
		job.State = tickwheel.Leased
		job.Attempts++
		job.Lease = &tickwheel.Lease{
			Until: tickwheel.Timestamp(f.now + duration), Since: tickwheel.Timestamp(f.now), Worker: call.Worker,
		}
		deliveries = append(deliveries, tickwheel.Delivery{Job: job.Job, Token: job.token, Until: job.Lease.Until})
	}
	return deliveries
}

// endAttempt makes the job ready at the time, or dead if no attempt is left.
func (f *Fake) endAttempt(job *fakeJob, due int64) {
	job.Lease, job.token = nil, ""
	if job.Attempts >= cmp.Or(job.MaxAttempts, defaultAttempts) {
		f.bury(job)
		return
	}
	job.Due, job.State = tickwheel.Timestamp(due), tickwheel.Scheduled
	if due <= f.now {
		job.State = tickwheel.Ready
	}
}

func (f *Fake) bury(job *fakeJob) {
	job.Lease, job.token = nil, ""
	job.State, job.Finished = tickwheel.Dead, tickwheel.Timestamp(f.now)
}

// backoff is the delay before the next attempt, without jitter.
func (job *fakeJob) backoff() int64 {
	retry := job.Retry
	if retry == nil {
		retry = &tickwheel.Retry{Exponential: &tickwheel.Exponential{First: time.Second, Max: time.Hour}}
	}
	switch {
	case retry.Exponential != nil:
		e := retry.Exponential
		return min(e.First<<min(job.Attempts-1, 30), e.Max).Milliseconds()
	case len(retry.List) > 0:
		return retry.List[min(job.Attempts, len(retry.List))-1].Milliseconds()
	}
	return retry.Fixed.Milliseconds()
}

// onJob performs a request about one job.
func (f *Fake) onJob(method string, job *fakeJob, verb string, call *fakeCall) (any, *tickwheel.Problem) {
	if job == nil {
		return nil, problem(404, tickwheel.ErrNotFound, "there is no such job")
	}
	defer f.wake()
	switch verb {
	case "ack", "fail", "extend", "release":
		if job.State != tickwheel.Leased || job.token != call.Token {
			return nil, problem(409, tickwheel.ErrStaleLease, "the lease has expired")
		}
		return f.onLease(job, verb, call), nil
	case "kick":
		if job.State != tickwheel.Dead {
			return nil, problem(409, tickwheel.ErrWrongState, "the job is %s, not dead", job.State)
		}
		job.State, job.Attempts, job.Finished, job.Due = tickwheel.Ready, 0, 0, tickwheel.Timestamp(f.now)
		return fields{"state": job.State}, nil
	case "reschedule":
		if job.State != tickwheel.Scheduled && job.State != tickwheel.Ready {
			return nil, problem(409, tickwheel.ErrWrongState, "the job is %s", job.State)
		}
		job.Due, job.State = tickwheel.Timestamp(f.now+millisOf(call.Delay)), tickwheel.Scheduled
		if call.Due != nil {
			job.Due = tickwheel.Timestamp(millisOf(call.Due))
		}
		return fields{"due_ms": job.Due}, nil
	}
	if method != "DELETE" {
		return job.Job, nil
	}
	if job.State == tickwheel.Dead {
		return nil, problem(409, tickwheel.ErrWrongState, "the job is dead")
	}
	delete(f.jobs, job.ID)
	return fields{"was": job.State}, nil
}

// onLease performs a request of the worker that has the job.
func (f *Fake) onLease(job *fakeJob, verb string, call *fakeCall) any {
	switch verb {
	case "ack":
		delete(f.jobs, job.ID)
		return fields{"state": tickwheel.Done}
	case "extend":
		// A new value: copies of the job that were handed out share the old one.
		job.Lease = &tickwheel.Lease{
			Until: tickwheel.Timestamp(f.now + millisOf(call.Lease)), Since: job.Lease.Since, Worker: job.Lease.Worker,
		}
		return fields{"until_ms": job.Lease.Until}
	case "release":
		job.Attempts--
		due := int64(job.Due)
		if call.Delay != nil {
			due = f.now + millisOf(call.Delay)
		}
		f.endAttempt(job, due)
		return fields{"released": true}
	}
	job.LastError = call.Error
	delay := job.backoff()
	if call.Delay != nil {
		delay = millisOf(call.Delay)
	}
	if call.Dead {
		f.bury(job)
	} else {
		f.endAttempt(job, f.now+delay)
	}
	return fields{"state": job.State}
}

// list returns all matching jobs on one page.
func (f *Fake) list(queue string, call *fakeCall) (any, *tickwheel.Problem) {
	jobs := []tickwheel.Job{}
	for name := range call.query {
		if name != "state" && name != "limit" && name != "page" {
			return nil, problem(501, "not-in-fake", "the fake cannot list jobs by %s", name)
		}
	}
	state := tickwheel.State(call.query.Get("state"))
	for _, job := range f.sorted(queue) {
		if state == "" || job.State == state {
			jobs = append(jobs, job.Job)
		}
	}
	return fields{"jobs": jobs, "next": nil}, nil
}

func (f *Fake) onQueue(method, name, verb string) (any, *tickwheel.Problem) {
	if name == "" {
		queues := []tickwheel.Queue{}
		for queue := range f.queues {
			queues = append(queues, f.queue(queue))
		}
		slices.SortFunc(queues, func(a, b tickwheel.Queue) int { return cmp.Compare(a.Name, b.Name) })
		return fields{"queues": queues}, nil
	}
	if !f.queues[name] {
		return nil, problem(404, tickwheel.ErrNotFound, "there is no queue %q", name)
	}
	switch {
	case verb == "" && method == "GET":
	case verb == "pause":
		f.paused[name] = true
	case verb == "resume":
		f.paused[name] = false
		f.wake()
	default:
		return nil, problem(501, "not-in-fake", "the fake does not have %s of a queue", verb)
	}
	return f.queue(name), nil
}

func (f *Fake) queue(name string) tickwheel.Queue {
	queue := tickwheel.Queue{Name: name, Paused: f.paused[name]}
	for _, job := range f.sorted(name) {
		switch job.State {
		case tickwheel.Scheduled:
			queue.Jobs.Scheduled++
		case tickwheel.Ready:
			queue.Jobs.Ready++
		case tickwheel.Leased:
			queue.Jobs.Leased++
		case tickwheel.Dead:
			queue.Jobs.Dead++
		}
	}
	return queue
}
