// Package tickwheel is the client of Tickwheel, a durable delayed-job service.
//
// A [Client] puts, cancels and administrates jobs. A [Worker] performs them. Package tickwheeltest
// has a fake and a real server for tests.
package tickwheel

import (
	"context"
	"fmt"
	"iter"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// Client sends requests to a Tickwheel server. It is safe for concurrent use; create one and share
// it.
type Client struct {
	base    string
	token   string
	http    *http.Client
	timeout time.Duration
	retry   RetryPolicy
	puts    *batcher
}

// Option changes a setting of a new [Client].
type Option func(*Client)

// WithToken sends the token with each request.
func WithToken(token string) Option { return func(c *Client) { c.token = token } }

// WithHTTPClient sends requests through the given HTTP client, for example with a certificate
// authority of your own. Its Timeout must be zero or longer than 60 seconds, because reserve waits.
func WithHTTPClient(client *http.Client) Option { return func(c *Client) { c.http = client } }

// WithTimeout limits each attempt of a request. Defaults to 30 seconds. The wait of a reserve is
// added to it.
func WithTimeout(timeout time.Duration) Option { return func(c *Client) { c.timeout = timeout } }

// WithRetry replaces the policy for repeated requests. Defaults to 6 repetitions, from 100 ms up
// to 5 s apart.
func WithRetry(policy RetryPolicy) Option { return func(c *Client) { c.retry = policy } }

// WithBatching sets how long a put waits for others to travel in the same request, and how many
// travel together at most. Defaults to one millisecond and 1,000 puts. A window of zero sends each
// put at once.
func WithBatching(window time.Duration, size int) Option {
	return func(c *Client) { c.puts.window, c.puts.size = window, size }
}

// New returns a client for the server at the address, such as "http://127.0.0.1:7300". It does not
// connect yet.
func New(address string, options ...Option) (*Client, error) {
	parsed, err := url.Parse(address)
	if err != nil || parsed.Host == "" || (parsed.Scheme != "http" && parsed.Scheme != "https") {
		return nil, fmt.Errorf("tickwheel: %q is not the address of a server: write one like http://127.0.0.1:7300", address)
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxIdleConnsPerHost = 64
	c := &Client{
		base:    strings.TrimRight(address, "/"),
		http:    &http.Client{Transport: transport},
		timeout: 30 * time.Second,
		retry:   RetryPolicy{Max: 6, First: 100 * time.Millisecond, Limit: 5 * time.Second},
	}
	c.puts = &batcher{client: c, window: time.Millisecond, size: 1000}
	for _, option := range options {
		option(c)
	}
	return c, nil
}

// Close closes idle connections. The client can still be used.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Put puts a job. Concurrent puts travel together; see [WithBatching]. If ctx carries a traceparent
// (see [WithTraceparent]), the job gets it as a header unless it has one.
func (c *Client) Put(ctx context.Context, job NewJob) (PutResult, error) {
	job = job.traced(ctx)
	if job.IdempotencyKey != "" || c.puts.window <= 0 {
		return c.putAlone(ctx, job)
	}
	for attempt := 0; ; attempt++ {
		result, err := c.puts.put(ctx, job)
		// The batch was accepted, but this item of it was refused for now. A refusal of the whole
		// request has been repeated already.
		problem, isItem := err.(itemProblem)
		if !isItem {
			return result, err
		}
		if attempt >= c.retry.Max || !problem.refusedForNow() {
			return result, problem.Problem
		}
		if err := sleep(ctx, c.retry.wait(attempt, err)); err != nil {
			return result, err
		}
	}
}

func (c *Client) putAlone(ctx context.Context, job NewJob) (PutResult, error) {
	key := job.IdempotencyKey
	if key == "" {
		key = newIdempotencyKey()
	}
	return call[PutResult](ctx, c, request{
		method: "POST", path: path("v1", "queues", job.Queue, "jobs"), body: job, idempotencyKey: key,
	})
}

// items is the body of a batch, and results the answer.
type items[T any] struct {
	Items []T `json:"items"`
}

type results[T any] struct {
	Results []Result[T] `json:"results"`
}

// PutMany puts up to 10,000 jobs in one commit, and returns a result for each in their order. The
// key is as [NewJob.IdempotencyKey], for the whole batch; an empty one is generated.
func (c *Client) PutMany(ctx context.Context, jobs []NewJob, idempotencyKey string) ([]Result[PutResult], error) {
	if idempotencyKey == "" {
		idempotencyKey = newIdempotencyKey()
	}
	traced := make([]NewJob, len(jobs))
	for i, job := range jobs {
		traced[i] = job.traced(ctx)
	}
	return batch[NewJob, PutResult](ctx, c, "/v1/jobs/batch", traced, idempotencyKey)
}

func batch[T, R any](ctx context.Context, c *Client, path string, list []T, idempotencyKey string) ([]Result[R], error) {
	if list == nil {
		list = []T{}
	}
	answer, err := call[results[R]](ctx, c, request{
		method: "POST", path: path, body: items[T]{list}, idempotencyKey: idempotencyKey,
	})
	if err == nil && len(answer.Results) != len(list) {
		err = fmt.Errorf("tickwheel: the server answered %d of %d items", len(answer.Results), len(list))
	}
	return answer.Results, err
}

// ImportedJob is a job of another server, with what has happened to it there.
type ImportedJob struct {
	Job        NewJob    // the job as it would be put, with its id and due time
	Created    time.Time // when the job was put
	Attempts   int       // the number of deliveries
	LastError  string    // the error of the last failed attempt
	Finished   State     // Dead, Done or Cancelled; empty if the job waits
	FinishedAt time.Time // when the job finished
}

type wireFinished struct {
	State State     `json:"state"`
	At    Timestamp `json:"at"`
}

type wireImport struct {
	Put       NewJob        `json:"put"`
	Created   Timestamp     `json:"created"`
	Attempts  int           `json:"attempts,omitempty"`
	LastError string        `json:"last_error,omitempty"`
	Finished  *wireFinished `json:"finished,omitempty"`
}

// ImportMany imports jobs of another server, and returns their ids. A job whose id exists is refused
// with ErrIDExists, so that an import can be repeated.
func (c *Client) ImportMany(ctx context.Context, list []ImportedJob) ([]Result[string], error) {
	wire := make([]wireImport, len(list))
	for i, one := range list {
		wire[i] = wireImport{Put: one.Job, Created: TimestampOf(one.Created), Attempts: one.Attempts, LastError: one.LastError}
		if one.Finished != "" {
			wire[i].Finished = &wireFinished{one.Finished, TimestampOf(one.FinishedAt)}
		}
	}
	answers, err := batch[wireImport, idItem](ctx, c, "/v1/jobs/batch/import", wire, "")
	return mapResults(answers, func(answer idItem) string { return answer.ID }), err
}

// FindIDs returns the ids of the jobs that a short id stands for: the first four or more digits of
// an id, or the first twelve, two dots and some of the last.
func (c *Client) FindIDs(ctx context.Context, short string) ([]string, error) {
	answer, err := call[struct {
		IDs []string `json:"ids"`
	}](ctx, c, request{method: "GET", path: path("v1", "ids", short)})
	return answer.IDs, err
}

// Get returns the job with the id.
func (c *Client) Get(ctx context.Context, id string) (Job, error) {
	return call[Job](ctx, c, request{method: "GET", path: path("v1", "jobs", id)})
}

// GetByKey returns the live job with the key.
func (c *Client) GetByKey(ctx context.Context, queue, key string) (Job, error) {
	return call[Job](ctx, c, request{method: "GET", path: path("v1", "queues", queue, "keys", key)})
}

type was struct {
	Was State `json:"was"`
}

// Cancel cancels the job with the id, and returns the state in which it was.
func (c *Client) Cancel(ctx context.Context, id string) (State, error) {
	answer, err := call[was](ctx, c, request{method: "DELETE", path: path("v1", "jobs", id)})
	return answer.Was, err
}

// CancelByKey cancels the live job with the key, and returns the state in which it was.
func (c *Client) CancelByKey(ctx context.Context, queue, key string) (State, error) {
	answer, err := call[was](ctx, c, request{method: "DELETE", path: path("v1", "queues", queue, "keys", key)})
	return answer.Was, err
}

// CancelMany cancels jobs by their ids.
func (c *Client) CancelMany(ctx context.Context, ids []string) ([]Result[State], error) {
	answers, err := batch[idItem, was](ctx, c, "/v1/jobs/batch/cancel", idItems(ids), "")
	return mapResults(answers, func(answer was) State { return answer.Was }), err
}

type due struct {
	Due Timestamp `json:"due_ms"`
}

// Reschedule changes the due time of the job with the id, and returns the new one.
func (c *Client) Reschedule(ctx context.Context, id string, when When) (Timestamp, error) {
	answer, err := call[due](ctx, c, request{method: "POST", path: path("v1", "jobs", id, "reschedule"), body: when.wire()})
	return answer.Due, err
}

// RescheduleByKey changes the due time of the live job with the key, and returns the new one.
func (c *Client) RescheduleByKey(ctx context.Context, queue, key string, when When) (Timestamp, error) {
	answer, err := call[due](ctx, c, request{
		method: "POST", path: path("v1", "queues", queue, "keys", key, "reschedule"), body: when.wire(),
	})
	return answer.Due, err
}

// RescheduleItem is an item of [Client.RescheduleMany].
type RescheduleItem struct {
	ID   string
	When When
}

// RescheduleMany changes the due times of jobs.
func (c *Client) RescheduleMany(ctx context.Context, list []RescheduleItem) ([]Result[Timestamp], error) {
	type item struct {
		ID string `json:"id"`
		wireWhen
	}
	wire := make([]item, len(list))
	for i, one := range list {
		wire[i] = item{one.ID, one.When.wire()}
	}
	answers, err := batch[item, due](ctx, c, "/v1/jobs/batch/reschedule", wire, "")
	return mapResults(answers, func(answer due) Timestamp { return answer.Due }), err
}

type idItem struct {
	ID string `json:"id"`
}

func idItems(ids []string) []idItem {
	list := make([]idItem, len(ids))
	for i, id := range ids {
		list[i].ID = id
	}
	return list
}

func mapResults[T, R any](list []Result[T], convert func(T) R) []Result[R] {
	converted := make([]Result[R], len(list))
	for i, one := range list {
		converted[i].Err = one.Err
		if one.OK != nil {
			value := convert(*one.OK)
			converted[i].OK = &value
		}
	}
	return converted
}

// ListOptions narrow a list of jobs. Fields that are zero do not narrow it.
type ListOptions struct {
	State      State
	DueFrom    time.Time // jobs due at this time or later
	DueTo      time.Time // jobs due at this time or earlier
	Key        string    // jobs with this key
	KeyPrefix  string    // jobs whose key begins with this
	Error      string    // jobs whose last error contains this text, in any case of ASCII letters
	ErrorGroup string    // jobs whose last error belongs to this group: ErrorGroup.Error
	Limit      int       // jobs of a page, at most 1,000
	Page       string    // JobPage.Next of the page before
}

// List returns a page of the jobs of a queue, by due time.
func (c *Client) List(ctx context.Context, queue string, options ListOptions) (JobPage, error) {
	query := url.Values{}
	set := func(name, value string) {
		if value != "" {
			query.Set(name, value)
		}
	}
	setTime := func(name string, value time.Time) {
		if !value.IsZero() {
			query.Set(name, strconv.FormatInt(value.UnixMilli(), 10))
		}
	}
	set("state", string(options.State))
	setTime("due_from", options.DueFrom)
	setTime("due_to", options.DueTo)
	set("key", options.Key)
	set("key_prefix", options.KeyPrefix)
	set("error", options.Error)
	set("error_group", options.ErrorGroup)
	set("page", options.Page)
	if options.Limit != 0 {
		query.Set("limit", strconv.Itoa(options.Limit))
	}
	return call[JobPage](ctx, c, request{method: "GET", path: path("v1", "queues", queue, "jobs"), query: query})
}

// ListAll returns the jobs of all pages:
//
//	for job, err := range client.ListAll(ctx, "orders", tickwheel.ListOptions{}) { … }
//
// It ends after the first error.
func (c *Client) ListAll(ctx context.Context, queue string, options ListOptions) iter.Seq2[Job, error] {
	return func(yield func(Job, error) bool) {
		for {
			page, err := c.List(ctx, queue, options)
			if err != nil {
				yield(Job{}, err)
				return
			}
			for _, job := range page.Jobs {
				if !yield(job, nil) {
					return
				}
			}
			if page.Next == "" {
				return
			}
			options.Page = page.Next
		}
	}
}
