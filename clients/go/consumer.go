package tickwheel

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"
)

// reconnect is how a worker backs off while the server cannot be reached.
var reconnect = RetryPolicy{First: 100 * time.Millisecond, Limit: 5 * time.Second}

// consumer works on one queue for a [Worker].
//
// Ground rules: a job is in held from its delivery until its outcome is reported, and its lease is
// extended for as long. The semaphore slots has a token for each held job, so the worker never
// holds more than Concurrency+Prefetch.
type consumer struct {
	client  *Client
	queue   string
	handler Handler
	options WorkerOptions
	log     *slog.Logger

	slots chan struct{}
	tasks chan *task

	mu   sync.Mutex
	held map[*task]struct{}
}

// task is a delivered job. Its context ends when the lease is lost or the worker gives up.
type task struct {
	delivery Delivery
	ctx      context.Context
	cancel   context.CancelCauseFunc
}

func newConsumer(w *Worker, queue string, handler Handler) *consumer {
	capacity := w.options.Concurrency + w.options.Prefetch
	return &consumer{
		client: w.client, queue: queue, handler: handler, options: w.options,
		log:   w.options.Logger.With("queue", queue, "worker", w.options.Name),
		slots: make(chan struct{}, capacity),
		tasks: make(chan *task, capacity),
		held:  map[*task]struct{}{},
	}
}

func (c *consumer) run(ctx context.Context) error {
	// Handlers and reports outlive ctx: hard ends when the shutdown has taken too long.
	hard, giveUp := context.WithCancelCause(context.WithoutCancel(ctx))
	defer giveUp(nil)
	background, stopBackground := context.WithCancel(hard)
	defer stopBackground()
	go c.extendLeases(background)

	var handlers sync.WaitGroup
	for range c.options.Concurrency {
		handlers.Add(1)
		go func() {
			defer handlers.Done()
			for task := range c.tasks {
				if ctx.Err() != nil {
					c.giveBack(hard, task)
				} else {
					c.perform(hard, task)
				}
			}
		}()
	}
	c.reserveAll(ctx, hard)
	close(c.tasks)

	finished := make(chan struct{})
	go func() { handlers.Wait(); close(finished) }()
	select {
	case <-finished:
		return nil
	case <-time.After(c.options.ShutdownTimeout):
	}
	stopBackground()
	c.releaseHeld()
	giveUp(ErrShutdown)
	return ErrShutdown
}

// reserveAll reserves jobs until ctx ends. It backs off while the server cannot be reached.
func (c *consumer) reserveAll(ctx, hard context.Context) {
	for failures := 0; ; {
		free := c.acquire(ctx)
		if free == 0 {
			return
		}
		deliveries, err := c.client.reserve(ctx, c.queue, ReserveOptions{
			Limit: free, Lease: c.options.Lease, Wait: reserveWait, Worker: c.options.Name,
		}, true)
		for range free - len(deliveries) {
			<-c.slots
		}
		for _, delivery := range deliveries {
			c.tasks <- c.hold(hard, delivery)
		}
		if ctx.Err() != nil {
			return
		}
		if err == nil {
			failures = 0
			continue
		}
		wait := reconnect.wait(failures, err)
		c.log.Warn("cannot reserve jobs; retrying", "error", err, "wait", wait)
		failures++
		if sleep(ctx, wait) != nil {
			return
		}
	}
}

// acquire waits for a free slot and takes all that are free, up to the limit of a reserve. It
// returns their number, or 0 if ctx ended.
func (c *consumer) acquire(ctx context.Context) int {
	select {
	case <-ctx.Done():
		return 0
	case c.slots <- struct{}{}:
	}
	for free := 1; ; free++ {
		if free == 1000 {
			return free
		}
		select {
		case c.slots <- struct{}{}:
		default:
			return free
		}
	}
}

func (c *consumer) hold(hard context.Context, delivery Delivery) *task {
	ctx, cancel := context.WithCancelCause(hard)
	if traceparent := delivery.Job.Headers[TraceparentHeader]; traceparent != "" {
		ctx = WithTraceparent(ctx, traceparent)
	}
	held := &task{delivery: delivery, ctx: ctx, cancel: cancel}
	c.mu.Lock()
	c.held[held] = struct{}{}
	c.mu.Unlock()
	return held
}

// drop ends the work on a task: its lease is no longer extended.
func (c *consumer) drop(task *task) {
	c.mu.Lock()
	delete(c.held, task)
	c.mu.Unlock()
	task.cancel(nil)
	<-c.slots
}

// perform calls the handler and reports the outcome.
func (c *consumer) perform(hard context.Context, task *task) {
	defer c.drop(task)
	if task.ctx.Err() != nil { // The lease was lost while the job waited for a handler.
		return
	}
	result, err := c.callHandler(task)
	if hard.Err() != nil { // The job has been released.
		return
	}
	id, token := task.delivery.Job.ID, task.delivery.Token
	var verdict *verdict
	switch {
	case err == nil:
		c.report(task, func(ctx context.Context) error { return c.client.Ack(ctx, id, token, result) })
	case errors.As(err, &verdict) && verdict.release:
		c.report(task, func(ctx context.Context) error { return c.client.Release(ctx, id, token, verdict.delay) })
	default:
		failure := Failure{Error: err.Error()}
		if verdict != nil {
			failure.Delay, failure.Dead = verdict.delay, verdict.dead
		}
		c.fail(task, failure)
	}
}

func (c *consumer) fail(task *task, failure Failure) {
	c.report(task, func(ctx context.Context) error {
		_, err := c.client.Fail(ctx, task.delivery.Job.ID, task.delivery.Token, failure)
		return err
	})
}

// callHandler returns the handler's result as JSON, or nil. A panic is an error.
func (c *consumer) callHandler(task *task) (result any, err error) {
	defer func() {
		if reason := recover(); reason != nil {
			err = fmt.Errorf("panic: %v", reason)
			c.log.Error("the handler panicked", "job", task.delivery.Job.ID, "panic", reason)
		}
	}()
	value, err := c.handler(task.ctx, &task.delivery.Job)
	if err != nil || value == nil {
		return nil, err
	}
	data, err := json.Marshal(value)
	if err != nil {
		return nil, fmt.Errorf("cannot encode the result as JSON: %w", err)
	}
	return json.RawMessage(data), nil
}

// report repeats the request until the server has answered it or the lease is lost. The lease token
// fences it: a late report changes nothing.
func (c *consumer) report(task *task, send func(context.Context) error) {
	for failures := 0; ; failures++ {
		err := send(task.ctx)
		if err == nil {
			return
		}
		if task.ctx.Err() == nil && repeatable(err, false) {
			if sleep(task.ctx, reconnect.wait(failures, err)) == nil {
				continue
			}
		}
		c.log.Warn("the outcome of the job was not accepted", "job", task.delivery.Job.ID, "error", err)
		var problem *Problem
		if errors.As(err, &problem) && (problem.Status == 413 || problem.Status == 422) {
			// For example a result that is too large. Without this the handler would run again and
			// again without a trace of the reason.
			_, err := c.client.Fail(task.ctx, task.delivery.Job.ID, task.delivery.Token,
				Failure{Error: "the outcome was refused: " + problem.Detail})
			if err != nil {
				c.log.Warn("the job was not failed", "job", task.delivery.Job.ID, "error", err)
			}
		}
		return
	}
}

// giveBack releases a job that no handler has begun.
func (c *consumer) giveBack(hard context.Context, task *task) {
	defer c.drop(task)
	if err := c.client.Release(hard, task.delivery.Job.ID, task.delivery.Token, nil); err != nil {
		c.log.Warn("the job was not released; its lease will expire", "job", task.delivery.Job.ID, "error", err)
	}
}

func (c *consumer) heldTasks() []*task {
	c.mu.Lock()
	defer c.mu.Unlock()
	list := make([]*task, 0, len(c.held))
	for task := range c.held {
		list = append(list, task)
	}
	return list
}

func leaseItems(list []*task, lease time.Duration) []LeaseItem {
	items := make([]LeaseItem, len(list))
	for i, task := range list {
		items[i] = LeaseItem{ID: task.delivery.Job.ID, Token: task.delivery.Token, Lease: lease}
	}
	return items
}

// extendLeases extends the leases of all held jobs, each third of a lease.
func (c *consumer) extendLeases(ctx context.Context) {
	period := c.options.Lease / 3
	ticker := time.NewTicker(period)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		list := c.heldTasks()
		if len(list) == 0 {
			continue
		}
		attempt, cancel := context.WithTimeout(ctx, period)
		answers, err := c.client.ExtendMany(attempt, leaseItems(list, c.options.Lease))
		cancel()
		if err != nil {
			c.log.Warn("cannot extend leases; retrying", "jobs", len(list), "error", err)
			continue
		}
		for i, answer := range answers {
			if answer.Err != nil && (answer.Err.Code == ErrStaleLease || answer.Err.Code == ErrNotFound) {
				list[i].cancel(ErrLeaseLost)
			}
		}
	}
}

// releaseHeld gives back the jobs whose handlers have not returned in time.
func (c *consumer) releaseHeld() {
	list := c.heldTasks()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if _, err := c.client.ReleaseMany(ctx, leaseItems(list, 0)); err != nil {
		c.log.Warn("jobs were not released; their leases will expire", "jobs", len(list), "error", err)
	}
}
