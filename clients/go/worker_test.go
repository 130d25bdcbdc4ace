package tickwheel_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	tickwheel "github.com/tickwheel/tickwheel/clients/go"
	"github.com/tickwheel/tickwheel/clients/go/tickwheeltest"
)

// guard is how long a test waits before it counts as hung.
const guard = 60 * time.Second

func put(t *testing.T, client *tickwheel.Client, payloads ...any) {
	t.Helper()
	for _, payload := range payloads {
		if _, err := client.Put(context.Background(), tickwheel.NewJob{Queue: "q", Payload: payload}); err != nil {
			t.Fatal(err)
		}
	}
}

// start runs a worker; the returned function stops it and returns its error.
func start(t *testing.T, client *tickwheel.Client, options tickwheel.WorkerOptions, handler tickwheel.Handler, middleware ...tickwheel.Middleware) func() error {
	options.Logger = slog.New(slog.NewTextHandler(io.Discard, nil))
	worker := tickwheel.NewWorker(client, options)
	worker.Handle("q", handler)
	worker.Use(middleware...)
	ctx, cancel := context.WithTimeout(context.Background(), guard)
	t.Cleanup(cancel)
	ended := make(chan error, 1)
	go func() { ended <- worker.Run(ctx) }()
	return func() error { cancel(); return <-ended }
}

func wait[T any](t *testing.T, channel <-chan T) (value T) {
	t.Helper()
	select {
	case value = <-channel:
	case <-time.After(guard):
		t.Fatal("nothing happened")
	}
	return value
}

func TestALongHandlerKeepsItsLease(t *testing.T) {
	fake := tickwheeltest.NewFake()
	client := fake.Client(t)
	put(t, client, 1)
	var calls atomic.Int32
	extended := make(chan struct{})
	stop := start(t, client, tickwheel.WorkerOptions{Lease: 300 * time.Millisecond}, func(context.Context, *tickwheel.Job) (any, error) {
		calls.Add(1)
		// Each round takes the job to the verge of expiry and waits for the next extension.
		for range 3 {
			before := fake.Jobs("q")[0].Lease.Until
			fake.Advance(290 * time.Millisecond)
			for fake.Jobs("q")[0].Lease.Until == before {
				time.Sleep(time.Millisecond)
			}
		}
		close(extended)
		return nil, nil
	})
	wait(t, extended)
	if err := stop(); err != nil || calls.Load() != 1 || len(fake.Jobs("q")) != 0 {
		t.Errorf("%d calls, jobs %v, error %v", calls.Load(), fake.Jobs("q"), err)
	}
}

func TestAHandlerLearnsThatItsLeaseIsLost(t *testing.T) {
	fake := tickwheeltest.NewFake()
	client := fake.Client(t)
	put(t, client, 1)
	causes := make(chan error, 1)
	stop := start(t, client, tickwheel.WorkerOptions{Lease: 30 * time.Millisecond}, func(ctx context.Context, job *tickwheel.Job) (any, error) {
		if _, err := client.Cancel(context.Background(), job.ID); err != nil {
			t.Error(err)
		}
		<-ctx.Done()
		causes <- context.Cause(ctx)
		return nil, nil
	})
	if cause := wait(t, causes); !errors.Is(cause, tickwheel.ErrLeaseLost) {
		t.Errorf("got %v", cause)
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
}

func TestShutdownFinishesAndReleases(t *testing.T) {
	fake := tickwheeltest.NewFake()
	client := fake.Client(t)
	put(t, client, 1, 2, 3)
	begun, finish := make(chan struct{}), make(chan struct{})
	stop := start(t, client, tickwheel.WorkerOptions{Concurrency: 1, Prefetch: 5}, func(ctx context.Context, job *tickwheel.Job) (any, error) {
		close(begun)
		<-finish
		return nil, ctx.Err()
	})
	wait(t, begun)
	stopped := make(chan error)
	go func() { stopped <- stop() }()
	time.AfterFunc(20*time.Millisecond, func() { close(finish) })
	if err := wait(t, stopped); err != nil {
		t.Fatal(err)
	}
	jobs := fake.Jobs("q")
	if len(jobs) != 2 {
		t.Fatalf("expected one job to be done, got %v", jobs)
	}
	for _, job := range jobs {
		if job.State != tickwheel.Ready || job.Attempts != 0 {
			t.Errorf("expected a released job, got %+v", job)
		}
	}
}

func TestAHandlerThatDoesNotEndIsGivenUp(t *testing.T) {
	fake := tickwheeltest.NewFake()
	client := fake.Client(t)
	put(t, client, 1)
	begun, causes := make(chan struct{}), make(chan error, 1)
	stop := start(t, client, tickwheel.WorkerOptions{ShutdownTimeout: time.Millisecond}, func(ctx context.Context, _ *tickwheel.Job) (any, error) {
		close(begun)
		<-ctx.Done()
		causes <- context.Cause(ctx)
		return nil, nil
	})
	wait(t, begun)
	if err := stop(); !errors.Is(err, tickwheel.ErrShutdown) {
		t.Errorf("got %v", err)
	}
	if cause := wait(t, causes); !errors.Is(cause, tickwheel.ErrShutdown) {
		t.Errorf("got %v", cause)
	}
	if job := fake.Jobs("q")[0]; job.State != tickwheel.Ready {
		t.Errorf("expected a released job, got %+v", job)
	}
}

func TestAPanicFailsTheJobAndMiddlewareSeesIt(t *testing.T) {
	fake := tickwheeltest.NewFake()
	client := fake.Client(t)
	put(t, client, "a")
	order := make(chan string, 2)
	trace := func(name string) tickwheel.Middleware {
		return func(next tickwheel.Handler) tickwheel.Handler {
			return func(ctx context.Context, job *tickwheel.Job) (any, error) {
				order <- name
				return next(ctx, job)
			}
		}
	}
	stop := start(t, client, tickwheel.WorkerOptions{}, func(context.Context, *tickwheel.Job) (any, error) {
		panic("no luck")
	}, trace("outer"), trace("inner"))
	if first, second := wait(t, order), wait(t, order); first != "outer" || second != "inner" {
		t.Errorf("got %s, %s", first, second)
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
	if job := fake.Jobs("q")[0]; job.State != tickwheel.Scheduled || !strings.Contains(job.LastError, "no luck") {
		t.Errorf("expected a failed job, got %+v", job)
	}
}

func TestAWorkerSurvivesAServerThatIsKilled(t *testing.T) {
	server := tickwheeltest.Start(t)
	client := server.Client()
	begun, finish, done := make(chan struct{}, 10), make(chan struct{}), make(chan string, 10)
	stop := start(t, client, tickwheel.WorkerOptions{Concurrency: 1}, func(_ context.Context, job *tickwheel.Job) (any, error) {
		begun <- struct{}{}
		<-finish
		done <- string(job.Content())
		return nil, nil
	})
	put(t, client, 1)
	wait(t, begun)
	server.Restart(true) // The worker holds a job, and reports it to the new process.
	close(finish)
	put(t, client, 2)
	if first, second := wait(t, done), wait(t, done); first != "1" || second != "2" {
		t.Errorf("got %s and %s", first, second)
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
	queue, err := client.Queue(context.Background(), "q")
	if err != nil || queue.Jobs != (tickwheel.Counts{}) {
		t.Errorf("expected an empty queue, got %+v, %v", queue.Jobs, err)
	}
}

func TestAWorkerWithoutHandlersIsRefused(t *testing.T) {
	worker := tickwheel.NewWorker(tickwheeltest.NewFake().Client(t), tickwheel.WorkerOptions{})
	if err := worker.Run(context.Background()); err == nil {
		t.Error("expected an error")
	}
}
