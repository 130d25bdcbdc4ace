package tickwheel

import (
	"fmt"
	"time"
)

// Code is the kind of a [Problem]. Codes are errors, so that errors.Is finds them:
//
//	if errors.Is(err, tickwheel.ErrNotFound) { … }
type Code string

// Error returns the code as the server writes it.
func (c Code) Error() string { return "tickwheel: " + string(c) }

// The kinds of problems that programs handle most often. A [Problem] may have other codes; the
// server describes them at /problems/{code}.
const (
	ErrUnauthorized        Code = "unauthorized"         // the token is missing or invalid
	ErrForbidden           Code = "forbidden"            // the token does not allow this
	ErrNotFound            Code = "not-found"            // the job, queue or schedule does not exist
	ErrKeyExists           Code = "key-exists"           // a live job has the key
	ErrIDExists            Code = "id-exists"            // a job has the id
	ErrStaleLease          Code = "stale-lease"          // the lease has expired, or its job is finished
	ErrWrongState          Code = "wrong-state"          // the state of the job or queue does not allow this
	ErrInvalidField        Code = "invalid-field"        // a field is invalid
	ErrMissingField        Code = "missing-field"        // a field is missing
	ErrOverLimit           Code = "over-limit"           // a value exceeds a limit
	ErrIdempotencyConflict Code = "idempotency-conflict" // the idempotency key was used with another request
	ErrRateLimited         Code = "rate-limited"         // too many requests
	ErrFull                Code = "full"                 // the server has no room for more
	ErrUnavailable         Code = "unavailable"          // the server cannot answer now
	ErrOutcomeUnknown      Code = "outcome-unknown"      // the request may or may not have been applied
)

// Problem is the error that the server answered with: a problem document of RFC 9457.
type Problem struct {
	Status    int    `json:"status"`               // the HTTP status
	Code      Code   `json:"code"`                 // the kind of problem, for programs
	Title     string `json:"title,omitempty"`      // a short text, the same for each problem of its kind
	Detail    string `json:"detail"`               // what is wrong, and what to do
	Field     string `json:"field,omitempty"`      // a JSON pointer into the body, or the name of a parameter or header
	ID        string `json:"id,omitempty"`         // the job that is concerned
	RequestID string `json:"request_id,omitempty"` // the id of the request in the server's log

	// RetryAfter is how long the server asked to wait, or zero.
	RetryAfter time.Duration `json:"-"`
}

// Error returns the detail, with the code and the field at fault.
func (p *Problem) Error() string {
	if p.Field != "" {
		return fmt.Sprintf("tickwheel: %s (%s at %s)", p.Detail, string(p.Code), p.Field)
	}
	return fmt.Sprintf("tickwheel: %s (%s)", p.Detail, string(p.Code))
}

// Is reports whether target is the problem's [Code].
func (p *Problem) Is(target error) bool {
	code, ok := target.(Code)
	return ok && code == p.Code
}

// refusedForNow reports whether the server applied nothing and may accept the same request later.
func (p *Problem) refusedForNow() bool {
	return (p.Status == 429 || p.Status == 503) && p.Code != ErrOutcomeUnknown
}

// Result is the answer to one item of a batch: a value or a problem.
type Result[T any] struct {
	OK  *T       `json:"ok,omitempty"`
	Err *Problem `json:"error,omitempty"`
}

// Get returns the value, or the problem as an error.
func (r Result[T]) Get() (T, error) {
	if r.OK != nil {
		return *r.OK, nil
	}
	var none T
	if r.Err == nil {
		return none, fmt.Errorf("tickwheel: the server answered an item with neither ok nor error")
	}
	return none, r.Err
}
