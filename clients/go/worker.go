package tickwheel

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"
)

// Handler performs a job. The worker acknowledges the job if the error is nil, with the value as
// its result (nil is no result), and otherwise fails it with the error's text. [RetryAfter],
// [DeadNow] and [Release] return errors that say more. The context ends when the lease is lost, and
// when the shutdown takes too long; context.Cause tells why.
type Handler func(ctx context.Context, job *Job) (result any, err error)

// Middleware wraps handlers, for example to log or measure.
type Middleware func(Handler) Handler

// Causes of a handler's context.
var (
	// ErrLeaseLost: the lease expired, or the job was cancelled. Another worker may have the job.
	ErrLeaseLost = errors.New("tickwheel: the lease of the job is lost")
	// ErrShutdown: the worker stopped before the handler returned. The job was released.
	ErrShutdown = errors.New("tickwheel: the worker stopped before the handler returned")
)

// verdict is an error that says what to do with the job.
type verdict struct {
	error
	delay   *time.Duration
	dead    bool
	release bool
}

func (v *verdict) Unwrap() error { return v.error }

// RetryAfter returns an error that fails the job and retries it after the delay, if an attempt is
// left.
func RetryAfter(err error, delay time.Duration) error { return &verdict{error: err, delay: &delay} }

// DeadNow returns an error that fails the job for good, without a retry.
func DeadNow(err error) error { return &verdict{error: err, dead: true} }

// Release returns an error that gives the job back without counting an attempt. It is ready again
// after the delay.
func Release(delay time.Duration) error {
	return &verdict{error: errors.New("tickwheel: released"), delay: &delay, release: true}
}

// WorkerOptions are the settings of a [Worker]. Zero values stand for the defaults.
type WorkerOptions struct {
	// Name is shown with the worker's jobs and in their history. Defaults to the host's name and
	// the process id.
	Name string
	// Concurrency is how many handlers of each queue run at once. Defaults to 10.
	Concurrency int
	// Prefetch is how many more jobs of each queue are reserved in advance. Defaults to none.
	Prefetch int
	// Lease is the duration of the leases. The worker extends them at a third of it for as long as
	// it has the job, so Lease is how soon another worker gets the jobs of one that crashed.
	// Defaults to 30 seconds.
	Lease time.Duration
	// ShutdownTimeout is how long handlers may take after the worker was stopped. Defaults to 30
	// seconds.
	ShutdownTimeout time.Duration
	// Logger gets what goes wrong. Defaults to slog.Default().
	Logger *slog.Logger
}

// Worker reserves jobs and calls handlers.
type Worker struct {
	client     *Client
	options    WorkerOptions
	handlers   map[string]Handler
	middleware []Middleware
}

// reserveWait is how long a reserve waits for a job. The server allows 60 seconds.
const reserveWait = 20 * time.Second

// NewWorker returns a worker that has no handlers yet.
func NewWorker(client *Client, options WorkerOptions) *Worker {
	if options.Name == "" {
		host, _ := os.Hostname()
		options.Name = fmt.Sprintf("%s-%d", host, os.Getpid())
	}
	if options.Concurrency <= 0 {
		options.Concurrency = 10
	}
	if options.Lease <= 0 {
		options.Lease = 30 * time.Second
	}
	if options.ShutdownTimeout <= 0 {
		options.ShutdownTimeout = 30 * time.Second
	}
	if options.Logger == nil {
		options.Logger = slog.Default()
	}
	options.Prefetch = max(options.Prefetch, 0)
	return &Worker{client: client, options: options, handlers: map[string]Handler{}}
}

// Handle calls the handler for the jobs of the queue. Call it before Run.
func (w *Worker) Handle(queue string, handler Handler) { w.handlers[queue] = handler }

// Use wraps all handlers in the middleware, the first one outermost. Call it before Run.
func (w *Worker) Use(middleware ...Middleware) { w.middleware = append(w.middleware, middleware...) }

// Run works until ctx ends, and then shuts down: it stops reserving, releases jobs that no handler
// has begun, waits for the handlers, and releases what is left after ShutdownTimeout. It returns
// nil, or [ErrShutdown] if handlers were still running. It survives restarts of the server.
func (w *Worker) Run(ctx context.Context) error {
	if len(w.handlers) == 0 {
		return errors.New("tickwheel: the worker has no handlers: call Handle before Run")
	}
	var group sync.WaitGroup
	failures := make(chan error, len(w.handlers))
	for queue, handler := range w.handlers {
		for i := len(w.middleware) - 1; i >= 0; i-- {
			handler = w.middleware[i](handler)
		}
		group.Add(1)
		go func() {
			defer group.Done()
			failures <- newConsumer(w, queue, handler).run(ctx)
		}()
	}
	group.Wait()
	close(failures)
	for err := range failures {
		if err != nil {
			return err
		}
	}
	return nil
}
