package tickwheel_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	tickwheel "github.com/tickwheel/tickwheel/clients/go"
	"github.com/tickwheel/tickwheel/clients/go/tickwheeltest"
)

// recorder passes requests on and remembers them.
type recorder struct {
	mu    sync.Mutex
	next  http.RoundTripper
	paths []string
	keys  []string
}

func (r *recorder) RoundTrip(req *http.Request) (*http.Response, error) {
	r.mu.Lock()
	r.paths = append(r.paths, req.URL.Path)
	r.keys = append(r.keys, req.Header.Get("Idempotency-Key"))
	r.mu.Unlock()
	return r.next.RoundTrip(req)
}

func TestConcurrentPutsTravelTogether(t *testing.T) {
	record := &recorder{next: tickwheeltest.NewFake()}
	// A long window makes the test independent of the machine's speed; the batch is sent when full.
	client, err := tickwheel.New("http://fake", tickwheel.WithHTTPClient(&http.Client{Transport: record}),
		tickwheel.WithBatching(time.Hour, 50))
	if err != nil {
		t.Fatal(err)
	}
	var group sync.WaitGroup
	for i := range 50 {
		group.Add(1)
		go func() {
			defer group.Done()
			queue := fmt.Sprintf("q%d", i)
			result, err := client.Put(context.Background(), tickwheel.NewJob{Queue: queue, Payload: i})
			if err != nil || result.Queue != queue {
				t.Errorf("put %d: got %+v, %v", i, result, err)
			}
		}()
	}
	group.Wait()
	if len(record.paths) != 1 || record.paths[0] != "/v1/jobs/batch" || record.keys[0] == "" {
		t.Errorf("expected one batch with an idempotency key, got %v with %q", record.paths, record.keys)
	}
}

func TestACallerThatGivesUpDoesNotHoldItsBatchBack(t *testing.T) {
	client := tickwheeltest.NewFake().Client(t, tickwheel.WithBatching(time.Hour, 1000))
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := client.Put(ctx, tickwheel.NewJob{Queue: "q", Payload: 1}); !errors.Is(err, context.Canceled) {
		t.Errorf("expected the context's error, got %v", err)
	}
}

// script answers with the given responses, one after the other, and remembers the requests.
func script(t *testing.T, answers ...func(http.ResponseWriter)) (*tickwheel.Client, *recorder) {
	next := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		next++
		answers[next-1](w)
	}))
	t.Cleanup(server.Close)
	record := &recorder{next: http.DefaultTransport}
	client, err := tickwheel.New(server.URL, tickwheel.WithHTTPClient(&http.Client{Transport: record}),
		tickwheel.WithRetry(tickwheel.RetryPolicy{Max: 2, First: time.Millisecond, Limit: time.Millisecond}))
	if err != nil {
		t.Fatal(err)
	}
	return client, record
}

func refuse(status int, code string, header ...string) func(http.ResponseWriter) {
	return func(w http.ResponseWriter) {
		if len(header) == 2 {
			w.Header().Set(header[0], header[1])
		}
		w.WriteHeader(status)
		fmt.Fprintf(w, `{"status": %d, "code": %q, "detail": "test"}`, status, code)
	}
}

func created(w http.ResponseWriter) {
	fmt.Fprint(w, `{"id": "1", "queue": "q", "outcome": "created", "due_ms": 5}`)
}

func hangUp(http.ResponseWriter) { panic(http.ErrAbortHandler) }

func TestAPutIsRepeatedWithTheSameKey(t *testing.T) {
	client, record := script(t, refuse(503, "outcome-unknown"), hangUp, created)
	result, err := client.Put(context.Background(), tickwheel.NewJob{Queue: "q", Payload: 1})
	if err != nil || result.Outcome != tickwheel.Created {
		t.Fatalf("got %+v, %v", result, err)
	}
	for _, key := range record.keys {
		if key == "" || key != record.keys[0] {
			t.Errorf("expected one key for all attempts, got %q", record.keys)
		}
	}
}

func TestRetryAfterIsHonoured(t *testing.T) {
	client, _ := script(t, refuse(429, "rate-limited", "Retry-After", "1"), created)
	start := time.Now()
	if _, err := client.Put(context.Background(), tickwheel.NewJob{Queue: "q", Payload: 1}); err != nil {
		t.Fatal(err)
	}
	if waited := time.Since(start); waited < time.Second {
		t.Errorf("waited %v instead of a second", waited)
	}
}

func TestWhatCannotBeRepeatedIsNot(t *testing.T) {
	for name, answer := range map[string]func(http.ResponseWriter){
		"unknown outcome": refuse(503, "outcome-unknown"), "broken connection": hangUp,
	} {
		t.Run(name, func(t *testing.T) {
			client, record := script(t, answer)
			if _, err := client.Advance(context.Background(), time.Second); err == nil || len(record.paths) != 1 {
				t.Errorf("expected one failed attempt, got %d and %v", len(record.paths), err)
			}
		})
	}
}

func TestTheLastRefusalIsReturned(t *testing.T) {
	client, record := script(t, refuse(429, "full"), refuse(429, "full"), refuse(429, "full"))
	_, err := client.Put(context.Background(), tickwheel.NewJob{Queue: "q", Payload: 1})
	var problem *tickwheel.Problem
	if !errors.Is(err, tickwheel.ErrFull) || !errors.As(err, &problem) || problem.Status != 429 {
		t.Errorf("expected the problem, got %v", err)
	}
	if len(record.paths) != 3 {
		t.Errorf("expected 3 attempts, got %d", len(record.paths))
	}
}

func TestARefusalWithoutAProblemDocument(t *testing.T) {
	client, _ := script(t, func(w http.ResponseWriter) { http.Error(w, "<html>", http.StatusTeapot) })
	_, err := client.Queues(context.Background())
	var problem *tickwheel.Problem
	if !errors.As(err, &problem) || problem.Status != 418 {
		t.Errorf("expected a problem with the status, got %v", err)
	}
}

func TestAWrongAddressIsRefused(t *testing.T) {
	for _, address := range []string{"", "localhost:7300", "ftp://host", "://"} {
		if _, err := tickwheel.New(address); err == nil || !strings.Contains(err.Error(), "address") {
			t.Errorf("New(%q): %v", address, err)
		}
	}
}

func TestAWebhookSecretMustBeWellFormed(t *testing.T) {
	for _, secret := range []string{"", "abc", "whsec_", "whsec_***"} {
		if _, err := tickwheel.NewWebhookVerifier(secret); err == nil {
			t.Errorf("%q was accepted", secret)
		}
	}
}

func TestDurationsAreReadAsTheServerWritesThem(t *testing.T) {
	for text, expected := range map[string]time.Duration{
		`"1h30m"`: 90 * time.Minute, `"1h 30m"`: 90 * time.Minute, `"2w1d"`: 15 * 24 * time.Hour,
		`"250ms"`: 250 * time.Millisecond, `1500`: 1500 * time.Millisecond,
	} {
		var follow tickwheel.FollowUp
		if err := json.Unmarshal([]byte(`{"delay": `+text+`}`), &follow); err != nil || follow.Delay != expected {
			t.Errorf("%s: got %v, %v", text, follow.Delay, err)
		}
	}
	for _, text := range []string{`"5 minutes"`, `"m"`, `"5"`} {
		var follow tickwheel.FollowUp
		if err := json.Unmarshal([]byte(`{"delay": `+text+`}`), &follow); err == nil {
			t.Errorf("%s was read as %v", text, follow.Delay)
		}
	}
}
