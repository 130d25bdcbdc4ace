package tickwheel

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"time"
)

// maxBatchBytes keeps a batch below the server's default limit for a body, 8 MiB.
const maxBatchBytes = 4 << 20

// batcher sends puts that arrive within a short window in one request.
//
// The first put of a batch starts a timer. When it fires, or when the batch is full, the batch is
// sent, and the next put starts a new one. Several batches may be on the way at once.
type batcher struct {
	client *Client
	window time.Duration
	size   int

	mu    sync.Mutex
	open  []*waitingPut
	bytes int
	timer *time.Timer
}

// waitingPut is a put whose caller waits for done.
type waitingPut struct {
	ctx  context.Context
	body json.RawMessage
	job  NewJob
	done chan putAnswer
}

type putAnswer struct {
	result PutResult
	err    error
}

// itemProblem is a problem of one item in a batch that the server accepted.
type itemProblem struct{ *Problem }

func (p itemProblem) Unwrap() error { return p.Problem }

// put adds the job to the open batch and waits for its own answer. If ctx ends first, the job may
// still be put.
func (b *batcher) put(ctx context.Context, job NewJob) (PutResult, error) {
	body, err := json.Marshal(job)
	if err != nil {
		return PutResult{}, err
	}
	waiting := &waitingPut{ctx: ctx, body: body, job: job, done: make(chan putAnswer, 1)}
	b.add(waiting)
	select {
	case answer := <-waiting.done:
		return answer.result, answer.err
	case <-ctx.Done():
		return PutResult{}, ctx.Err()
	}
}

func (b *batcher) add(waiting *waitingPut) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.bytes+len(waiting.body) > maxBatchBytes {
		b.flushLocked()
	}
	b.open = append(b.open, waiting)
	b.bytes += len(waiting.body)
	if len(b.open) >= b.size {
		b.flushLocked()
	} else if len(b.open) == 1 {
		b.timer = time.AfterFunc(b.window, b.flush)
	}
}

func (b *batcher) flush() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.flushLocked()
}

func (b *batcher) flushLocked() {
	if len(b.open) == 0 {
		return
	}
	if b.timer != nil {
		b.timer.Stop()
	}
	go b.send(b.open)
	b.open, b.bytes = nil, 0
}

// send puts the jobs whose callers still wait, and gives each caller its answer.
func (b *batcher) send(all []*waitingPut) {
	list := all[:0]
	for _, waiting := range all {
		if waiting.ctx.Err() == nil {
			list = append(list, waiting)
		}
	}
	switch len(list) {
	case 0:
	case 1:
		list[0].done <- b.alone(list[0])
	default:
		b.sendMany(list)
	}
}

func (b *batcher) sendMany(list []*waitingPut) {
	bodies := make([]json.RawMessage, len(list))
	for i, waiting := range list {
		bodies[i] = waiting.body
	}
	// No caller's context applies: the others must get their answers.
	answers, err := batch[json.RawMessage, PutResult](
		context.Background(), b.client, "/v1/jobs/batch", bodies, newIdempotencyKey(),
	)
	for i, waiting := range list {
		switch {
		case refusesItem(err):
			// One item makes the whole batch invalid. Alone, only that one is refused.
			go func() { waiting.done <- b.alone(waiting) }()
		case err != nil:
			waiting.done <- putAnswer{err: err}
		case answers[i].Err != nil:
			waiting.done <- putAnswer{err: itemProblem{answers[i].Err}}
		default:
			result, err := answers[i].Get()
			waiting.done <- putAnswer{result, err}
		}
	}
}

func (b *batcher) alone(waiting *waitingPut) putAnswer {
	result, err := b.client.putAlone(waiting.ctx, waiting.job)
	return putAnswer{result, err}
}

// refusesItem reports whether the server refused the batch for what it contains.
func refusesItem(err error) bool {
	var problem *Problem
	if !errors.As(err, &problem) {
		return false
	}
	switch problem.Status {
	case 400, 403, 404, 413, 422:
		return true
	}
	return false
}
