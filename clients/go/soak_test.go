package tickwheel_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	tickwheel "github.com/tickwheel/tickwheel/clients/go"
	"github.com/tickwheel/tickwheel/clients/go/tickwheeltest"
)

// TestMain runs a worker of the soak test instead of the tests, if the environment says so.
func TestMain(m *testing.M) {
	if url := os.Getenv("SOAK_SERVER"); url != "" {
		if err := soakWorker(url, os.Getenv("SOAK_OUTPUT")); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// soakWorker writes the number of each job to a file, until SIGTERM.
func soakWorker(url, output string) error {
	client, err := tickwheel.New(url)
	if err != nil {
		return err
	}
	file, err := os.OpenFile(output, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	worker := tickwheel.NewWorker(client, tickwheel.WorkerOptions{Concurrency: 4, Prefetch: 4, Lease: time.Second})
	worker.Handle("soak", func(_ context.Context, job *tickwheel.Job) (any, error) {
		_, err := fmt.Fprintf(file, "%s\n", job.Content())
		return nil, err
	})
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	return worker.Run(ctx)
}

// TestNothingIsLost kills servers and workers while jobs are put and handled. TICKWHEEL_SOAK_SECONDS
// sets for how long; the short form takes 3 seconds.
func TestNothingIsLost(t *testing.T) {
	seconds, err := strconv.ParseFloat(os.Getenv("TICKWHEEL_SOAK_SECONDS"), 64)
	if err != nil {
		seconds = 3
	}
	server := tickwheeltest.StartOnSystemClock(t)
	folder := t.TempDir()
	started := 0
	startWorker := func() *exec.Cmd {
		started++
		worker := exec.Command(os.Args[0])
		worker.Env = append(os.Environ(), "SOAK_SERVER="+server.URL,
			"SOAK_OUTPUT="+filepath.Join(folder, strconv.Itoa(started)))
		if err := worker.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { worker.Process.Kill(); worker.Wait() })
		return worker
	}

	// The producers repeat their puts for as long as a restart may take.
	producer, err := tickwheel.New(server.URL, tickwheel.WithRetry(tickwheel.RetryPolicy{
		Max: 100, First: 50 * time.Millisecond, Limit: time.Second,
	}))
	if err != nil {
		t.Fatal(err)
	}
	produce, stop := context.WithCancel(context.Background())
	defer stop()
	var mu sync.Mutex
	put := map[string]bool{}
	var producers sync.WaitGroup
	for first := range 4 {
		producers.Add(1)
		go func() {
			defer producers.Done()
			for n := first * 1_000_000; produce.Err() == nil; n++ {
				_, err := producer.Put(context.Background(), tickwheel.NewJob{
					Queue: "soak", Payload: n, MaxAttempts: 1000, Delay: time.Duration(n%50) * time.Millisecond,
				})
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				put[strconv.Itoa(n)] = true
				mu.Unlock()
				time.Sleep(5 * time.Millisecond)
			}
		}()
	}
	workers := []*exec.Cmd{startWorker(), startWorker()}
	end := time.Now().Add(time.Duration(seconds * float64(time.Second)))
	for kills := 0; time.Now().Before(end) || kills < 2; kills++ {
		time.Sleep(time.Duration(200+rand.IntN(400)) * time.Millisecond)
		how := []os.Signal{syscall.SIGKILL, syscall.SIGTERM}[rand.IntN(2)]
		workers[0].Process.Signal(how)
		workers[0].Wait()
		workers = append(workers[1:], startWorker())
		if kills == 0 || rand.IntN(2) == 0 {
			server.Restart(true)
		}
	}
	stop()
	producers.Wait()
	waitUntilEmpty(t, server.Client())

	files, _ := filepath.Glob(filepath.Join(folder, "*"))
	total := len(put)
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for lines := bufio.NewScanner(bytes.NewReader(data)); lines.Scan(); {
			delete(put, lines.Text())
		}
	}
	if total < 20 || len(put) > 0 {
		t.Errorf("of %d jobs, %d were put and never handled: %v", total, len(put), put)
	}
}

func waitUntilEmpty(t *testing.T, client *tickwheel.Client) {
	t.Helper()
	for deadline := time.Now().Add(guard); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		queue, err := client.Queue(context.Background(), "soak")
		if err != nil {
			t.Fatal(err)
		}
		if queue.Jobs.Dead > 0 {
			t.Fatalf("%d jobs died", queue.Jobs.Dead)
		}
		if queue.Jobs.Scheduled+queue.Jobs.Ready+queue.Jobs.Leased == 0 {
			return
		}
	}
	t.Fatal("jobs are left")
}
