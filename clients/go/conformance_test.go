package tickwheel_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	tickwheel "github.com/tickwheel/tickwheel/clients/go"
	"github.com/tickwheel/tickwheel/clients/go/tickwheeltest"
)

// The runner of ../conformance; its README describes the format of scenarios.

// stepTimeout is when the runner gives up on a step.
const stepTimeout = 60 * time.Second

type object = map[string]any

type scenario struct {
	About string
	Serve []string
	Steps []step
}

type step struct {
	Do     string
	With   object
	Expect any
	Error  any
	Save   map[string]string
}

// fakeScenarios are those that need nothing that the fake does not have.
var fakeScenarios = []string{"order_timeout", "keys", "concurrent_puts", "worker_trace"}

func TestConformance(t *testing.T) {
	files, err := filepath.Glob("../conformance/*.json")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scenarios in ../conformance (%v)", err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".json")
		t.Run(name, func(t *testing.T) {
			scenario := readScenario(t, file)
			server := tickwheeltest.Start(t, scenario.Serve...)
			run := &runner{t: t, client: server.Client(), server: server, vars: object{"server": server.URL}}
			run.all(scenario.Steps)
		})
		if slices.Contains(fakeScenarios, name) {
			t.Run(name+"_on_the_fake", func(t *testing.T) {
				client := tickwheeltest.NewFake().Client(t)
				run := &runner{t: t, client: client, vars: object{}}
				run.all(readScenario(t, file).Steps)
			})
		}
	}
}

func readScenario(t *testing.T, file string) (s scenario) {
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber()
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&s); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	return s
}

type runner struct {
	t      *testing.T
	client *tickwheel.Client
	server *tickwheeltest.Server
	vars   object
	stream *tickwheel.EventStream
	states *tickwheel.TargetEventStream
}

func (r *runner) all(steps []step) {
	for i, step := range steps {
		if err := r.step(step); err != nil {
			r.t.Fatalf("step %d, %s: %v", i+1, step.Do, err)
		}
	}
}

func (r *runner) step(step step) error {
	ctx, cancel := context.WithTimeout(context.Background(), stepTimeout)
	defer cancel()
	with, _ := r.substitute(step.With).(object)
	typed, err := r.perform(ctx, step.Do, with)
	if step.Error != nil {
		var problem *tickwheel.Problem
		if !errors.As(err, &problem) {
			return fmt.Errorf("expected a problem, got %v, %v", typed, err)
		}
		return matches(r.substitute(step.Error), wire(problem), "error")
	}
	if err != nil {
		return err
	}
	answer := wire(typed)
	if err := matches(r.substitute(step.Expect), answer, ""); step.Expect != nil && err != nil {
		return err
	}
	for name, pointer := range step.Save {
		if r.vars[name] = resolve(answer, pointer); r.vars[name] == nil {
			return fmt.Errorf("no value at %s", pointer)
		}
	}
	return nil
}

// wire converts a typed answer to the JSON of the API.
func wire(value any) any {
	data, err := json.Marshal(value)
	if err != nil {
		panic(err)
	}
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber()
	var decoded any
	if err := decoder.Decode(&decoded); err != nil {
		panic(err)
	}
	return decoded
}

func resolve(value any, pointer string) any {
	for _, part := range strings.Split(pointer, "/")[1:] {
		switch container := value.(type) {
		case object:
			value = container[part]
		case []any:
			index := number(part)
			if index < 0 || index >= float64(len(container)) {
				return nil
			}
			value = container[int(index)]
		default:
			return nil
		}
	}
	return value
}

func number(value any) float64 {
	parsed, ok := new(big.Float).SetString(fmt.Sprint(value))
	if !ok {
		panic(fmt.Sprintf("%v is not a number", value))
	}
	float, _ := parsed.Float64()
	return float
}

// substitute replaces variables and sums.
func (r *runner) substitute(value any) any {
	switch value := value.(type) {
	case string:
		return r.substituteText(value)
	case []any:
		list := make([]any, len(value))
		for i, item := range value {
			list[i] = r.substitute(item)
		}
		return list
	case object:
		if terms, ok := value["$sum"].([]any); ok {
			sum := 0.0
			for _, term := range terms {
				sum += number(r.substitute(term))
			}
			return json.Number(fmt.Sprintf("%.0f", sum))
		}
		replaced := object{}
		for name, item := range value {
			replaced[name] = r.substitute(item)
		}
		return replaced
	}
	return value
}

func (r *runner) substituteText(text string) any {
	var out strings.Builder
	rest := text
	for {
		before, after, found := strings.Cut(rest, "${")
		out.WriteString(before)
		if !found {
			return out.String()
		}
		name, tail, _ := strings.Cut(after, "}")
		value, known := r.vars[name]
		if !known {
			r.t.Fatalf("unknown variable %q", name)
		}
		if text == "${"+name+"}" {
			return value
		}
		fmt.Fprint(&out, value)
		rest = tail
	}
}

// matches returns why the answer does not match what is expected.
func matches(expected, answer any, at string) error {
	differs := func() error { return fmt.Errorf("at %q: expected %v, got %v", at, wire(expected), answer) }
	switch expected := expected.(type) {
	case object:
		for operator, operand := range expected {
			if strings.HasPrefix(operator, "$") {
				if !satisfies(operator, operand, answer, at) {
					return differs()
				}
				return nil
			}
		}
		members, ok := answer.(object)
		if !ok {
			return differs()
		}
		for name, value := range expected {
			if err := matches(value, members[name], at+"/"+name); err != nil {
				return err
			}
		}
	case []any:
		list, ok := answer.([]any)
		if !ok || len(list) != len(expected) {
			return differs()
		}
		for i, value := range expected {
			if err := matches(value, list[i], fmt.Sprintf("%s/%d", at, i)); err != nil {
				return err
			}
		}
	case json.Number:
		if actual, ok := answer.(json.Number); !ok || number(expected) != number(actual) {
			return differs()
		}
	default:
		if expected != answer {
			return differs()
		}
	}
	return nil
}

func satisfies(operator string, operand, answer any, at string) bool {
	switch operator {
	case "$any":
		return answer != nil
	case "$absent":
		return answer == nil
	case "$exact":
		return matches(operand, answer, at) == nil && matches(answer, operand, at) == nil
	case "$contains":
		text, ok := answer.(string)
		return ok && strings.Contains(text, operand.(string))
	case "$duration":
		return answer != nil && duration(operand) == duration(answer)
	case "$between":
		bounds := operand.([]any)
		actual, ok := answer.(json.Number)
		return ok && number(bounds[0]) <= number(actual) && number(actual) <= number(bounds[1])
	case "$not":
		return matches(operand, answer, at) != nil
	}
	panic("unknown operator " + operator)
}

// duration reads milliseconds or text such as "1h30m".
func duration(value any) time.Duration {
	text, ok := value.(string)
	if !ok {
		return time.Duration(number(value)) * time.Millisecond
	}
	var parsed tickwheel.FollowUp
	if err := json.Unmarshal(fmt.Appendf(nil, `{"delay": %q}`, text), &parsed); err != nil {
		panic(err)
	}
	return parsed.Delay
}

// verifyWebhook answers {valid}.
func verifyWebhook(with object) (any, error) {
	verifier, err := tickwheel.NewWebhookVerifier(with["secret"].(string))
	if err != nil {
		return nil, err
	}
	verifier.Now = func() time.Time { return time.Unix(int64(number(with["now"])), 0) }
	header := http.Header{}
	for name, value := range with["headers"].(object) {
		header.Set(name, value.(string))
	}
	err = verifier.Verify(header, []byte(with["body"].(string)))
	if err != nil && !errors.Is(err, tickwheel.ErrInvalidSignature) {
		return nil, err
	}
	return object{"valid": err == nil}, nil
}

// work runs a worker until its handler was called as often as the step says.
func (r *runner) work(ctx context.Context, with object) (any, error) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	options := tickwheel.WorkerOptions{Name: text(with, "name"), Concurrency: integer(with, "concurrency"), Prefetch: integer(with, "prefetch")}
	if with["lease"] != nil {
		options.Lease = duration(with["lease"])
	}
	worker := tickwheel.NewWorker(r.client, options)
	var mu sync.Mutex
	handled := 0
	worker.Handle(text(with, "queue"), func(ctx context.Context, job *tickwheel.Job) (any, error) {
		mu.Lock()
		handled++
		if handled == integer(with, "jobs") {
			// The shutdown waits for this handler and its report.
			defer stop()
		}
		mu.Unlock()
		return r.handle(ctx, job)
	})
	err := worker.Run(ctx)
	return object{"handled": handled}, err
}

func (r *runner) handle(ctx context.Context, job *tickwheel.Job) (any, error) {
	var order struct {
		Do, Error, Queue string
		Result, Delay    any
	}
	if err := job.Decode(&order); err != nil {
		return nil, err
	}
	switch order.Do {
	case "return":
		return order.Result, nil
	case "throw":
		return nil, errors.New(order.Error)
	case "retry":
		return nil, tickwheel.RetryAfter(errors.New(order.Error), duration(order.Delay))
	case "dead":
		return nil, tickwheel.DeadNow(errors.New(order.Error))
	case "release":
		return nil, tickwheel.Release(duration(order.Delay))
	case "put":
		_, err := r.client.Put(ctx, tickwheel.NewJob{Queue: order.Queue, Payload: tickwheel.Text("child")})
		return nil, err
	}
	return nil, tickwheel.DeadNow(fmt.Errorf("unknown order %q", order.Do))
}
