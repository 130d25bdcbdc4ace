package tickwheel

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	mathrand "math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// request is one call of the API.
type request struct {
	method string
	path   string
	query  url.Values
	body   any

	idempotencyKey string
	// timeout limits one attempt; zero takes the client's.
	timeout time.Duration
	// once forbids to repeat the request after it may have been applied.
	once bool
	// single forbids every repetition: the caller has a loop of its own.
	single bool
}

// path joins the escaped segments to a path.
func path(segments ...string) string {
	var joined strings.Builder
	for _, segment := range segments {
		joined.WriteByte('/')
		joined.WriteString(url.PathEscape(segment))
	}
	return joined.String()
}

// call sends the request, repeats it while that is safe and useful, and decodes the answer.
func call[T any](ctx context.Context, c *Client, r request) (T, error) {
	var answer T
	var body []byte
	if r.body != nil {
		var err error
		if body, err = json.Marshal(r.body); err != nil {
			return answer, fmt.Errorf("tickwheel: cannot encode the request: %w", err)
		}
	}
	for attempt := 0; ; attempt++ {
		data, err := c.send(ctx, r, body)
		if err == nil {
			if text, ok := any(&answer).(*string); ok {
				*text = string(data)
			} else if err := json.Unmarshal(data, &answer); err != nil {
				return answer, fmt.Errorf("tickwheel: cannot read the answer to %s %s: %w", r.method, r.path, err)
			}
			return answer, nil
		}
		if ctx.Err() != nil {
			return answer, ctx.Err()
		}
		if r.single || attempt >= c.retry.Max || !repeatable(err, r.once) {
			return answer, err
		}
		if err := sleep(ctx, c.retry.wait(attempt, err)); err != nil {
			return answer, err
		}
	}
}

// repeatable reports whether the request may succeed when it is sent again, without being applied
// twice.
func repeatable(err error, once bool) bool {
	var problem *Problem
	if errors.As(err, &problem) {
		return problem.refusedForNow() || (problem.Code == ErrOutcomeUnknown && !once)
	}
	return isTransport(err) && !once
}

// send performs one attempt and returns the body of a successful answer.
func (c *Client) send(ctx context.Context, r request, body []byte) ([]byte, error) {
	timeout := r.timeout
	if timeout == 0 {
		timeout = c.timeout
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	response, err := c.open(ctx, r, body)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	data, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, transportError{fmt.Errorf("tickwheel: cannot read the answer to %s %s: %w", r.method, r.path, err)}
	}
	if response.StatusCode >= 300 {
		return nil, problemOf(response, data)
	}
	return data, nil
}

// open sends the request and returns the response with its body unread.
func (c *Client) open(ctx context.Context, r request, body []byte) (*http.Response, error) {
	address := c.base + r.path
	if len(r.query) > 0 {
		address += "?" + r.query.Encode()
	}
	req, err := http.NewRequestWithContext(ctx, r.method, address, bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("tickwheel: %w", err)
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if c.token != "" {
		req.Header.Set("Authorization", "Bearer "+c.token)
	}
	if r.idempotencyKey != "" {
		req.Header.Set("Idempotency-Key", r.idempotencyKey)
	}
	response, err := c.http.Do(req)
	if err != nil {
		return nil, transportError{fmt.Errorf("tickwheel: %w", err)}
	}
	return response, nil
}

// problemOf reads the problem document of an answer. An answer without one, for example of a proxy,
// becomes a problem with the status alone.
func problemOf(response *http.Response, data []byte) *Problem {
	problem := new(Problem)
	if json.Unmarshal(data, problem) != nil || problem.Status == 0 {
		*problem = Problem{Status: response.StatusCode, Detail: "the server answered " + response.Status}
	}
	if seconds, err := strconv.Atoi(response.Header.Get("Retry-After")); err == nil {
		problem.RetryAfter = time.Duration(seconds) * time.Second
	}
	return problem
}

// RetryPolicy is how a client repeats requests that the server refused for now (status 429 and 503)
// or that did not reach it.
type RetryPolicy struct {
	Max   int           // how often a request is repeated; 0 never repeats
	First time.Duration // the wait before the first repetition, which then doubles
	Limit time.Duration // the longest wait; a longer Retry-After of the server is still honoured
}

// wait returns the back-off before the next attempt: doubling with jitter, and at least what the
// server asked for.
func (p RetryPolicy) wait(attempt int, err error) time.Duration {
	backoff := min(p.First<<min(attempt, 20), p.Limit)
	backoff = backoff/2 + mathrand.N(backoff/2+1)
	var problem *Problem
	if errors.As(err, &problem) && problem.RetryAfter > backoff {
		return problem.RetryAfter
	}
	return backoff
}

// sleep waits, and returns early with the context's error if that ends first.
func sleep(ctx context.Context, duration time.Duration) error {
	timer := time.NewTimer(duration)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// newIdempotencyKey returns 128 random bits as text.
func newIdempotencyKey() string {
	var bits [16]byte
	rand.Read(bits[:]) // Never fails.
	return hex.EncodeToString(bits[:])
}

// transportError is a request that got no complete answer.
type transportError struct{ error }

func (e transportError) Unwrap() error { return e.error }

func isTransport(err error) bool {
	var transport transportError
	return errors.As(err, &transport)
}
