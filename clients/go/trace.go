package tickwheel

import (
	"context"
	"maps"
)

// TraceparentHeader is the job header that carries a W3C trace context.
const TraceparentHeader = "traceparent"

type traceparentKey struct{}

// WithTraceparent returns a context whose puts give their jobs this traceparent, a W3C trace
// context such as "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01". A [Worker] passes the
// traceparent of the job to the context of its handler, so jobs that a handler puts stay in the
// trace.
func WithTraceparent(ctx context.Context, traceparent string) context.Context {
	return context.WithValue(ctx, traceparentKey{}, traceparent)
}

// Traceparent returns the traceparent of the context, or an empty string.
func Traceparent(ctx context.Context) string {
	traceparent, _ := ctx.Value(traceparentKey{}).(string)
	return traceparent
}

// traced returns the job with the context's traceparent, unless the job has one.
func (j NewJob) traced(ctx context.Context) NewJob {
	traceparent := Traceparent(ctx)
	if traceparent == "" || j.Headers[TraceparentHeader] != "" {
		return j
	}
	headers := maps.Clone(j.Headers)
	if headers == nil {
		headers = map[string]string{}
	}
	headers[TraceparentHeader] = traceparent
	j.Headers = headers
	return j
}
