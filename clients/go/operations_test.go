package tickwheel_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	tickwheel "github.com/tickwheel/tickwheel/clients/go"
)

// The operations of scenarios, by the client's methods.

func text(with object, name string) string {
	value, _ := with[name].(string)
	return value
}

func integer(with object, name string) int {
	if with[name] == nil {
		return 0
	}
	return int(number(with[name]))
}

func optionalDuration(with object, name string) *time.Duration {
	if with[name] == nil {
		return nil
	}
	value := duration(with[name])
	return &value
}

func shortDuration(with object, name string) time.Duration {
	if with[name] == nil {
		return 0
	}
	return duration(with[name])
}

func instant(with object, name string) (time.Time, error) {
	switch value := with[name].(type) {
	case nil:
		return time.Time{}, nil
	case string:
		return time.Parse(time.RFC3339, value)
	default:
		return time.UnixMilli(int64(number(value))), nil
	}
}

func when(with object) (tickwheel.When, error) {
	if with["due"] != nil {
		due, err := instant(with, "due")
		return tickwheel.At(due), err
	}
	return tickwheel.In(duration(with["delay"])), nil
}

// convert reads a part of the arguments through the library's own JSON.
func convert[T any](value any) *T {
	if value == nil {
		return nil
	}
	data, err := json.Marshal(value)
	if err != nil {
		panic(err)
	}
	converted := new(T)
	if err := json.Unmarshal(data, converted); err != nil {
		panic(err)
	}
	return converted
}

func content(with object) (any, error) {
	if value, given := with["text"]; given {
		return tickwheel.Text(value.(string)), nil
	}
	if value, given := with["base64"]; given {
		return base64.StdEncoding.DecodeString(value.(string))
	}
	value, given := with["payload"]
	if !given {
		return nil, nil
	}
	data, err := json.Marshal(value)
	return json.RawMessage(data), err
}

func headers(with object) map[string]string {
	if converted := convert[map[string]string](with["headers"]); converted != nil {
		return *converted
	}
	return nil
}

func newJob(with object) (tickwheel.NewJob, error) {
	payload, err := content(with)
	due, dueErr := instant(with, "due")
	return tickwheel.NewJob{
		Queue: text(with, "queue"), Payload: payload, Delay: shortDuration(with, "delay"), Due: due,
		Key: text(with, "key"), OnConflict: tickwheel.Conflict(text(with, "on_conflict")),
		Priority: int8(integer(with, "priority")), Headers: headers(with),
		MaxAttempts: integer(with, "max_attempts"), Retry: convert[tickwheel.Retry](with["retry"]),
		Group: text(with, "group"), ID: text(with, "id"), MaxTotalDelay: shortDuration(with, "max_total_delay"),
		OnSuccess: convert[tickwheel.FollowUp](with["on_success"]), OnDeath: convert[tickwheel.FollowUp](with["on_death"]),
		IdempotencyKey: text(with, "idempotency_key"),
	}, errors.Join(err, dueErr)
}

func newSchedule(with object) (tickwheel.NewSchedule, error) {
	payload, err := content(with)
	return tickwheel.NewSchedule{
		Queue: text(with, "queue"), Cron: text(with, "cron"), Timezone: text(with, "timezone"),
		Every: shortDuration(with, "every"), Misfire: tickwheel.Misfire(text(with, "misfire")),
		MisfireLimit: integer(with, "misfire_limit"), Grace: shortDuration(with, "grace"),
		Payload: payload, Delay: shortDuration(with, "delay"), Key: text(with, "key"),
		OnConflict: tickwheel.Conflict(text(with, "on_conflict")), Priority: int8(integer(with, "priority")),
		Headers: headers(with), MaxAttempts: integer(with, "max_attempts"),
		Retry: convert[tickwheel.Retry](with["retry"]), Group: text(with, "group"),
	}, err
}

func leaseItems(with object) (list []tickwheel.LeaseItem) {
	for _, entry := range with["items"].([]any) {
		item := entry.(object)
		dead, _ := item["dead"].(bool)
		list = append(list, tickwheel.LeaseItem{
			ID: text(item, "id"), Token: text(item, "token"), Result: item["result"], Error: text(item, "error"),
			Delay: optionalDuration(item, "delay"), Dead: dead, Lease: shortDuration(item, "lease"),
		})
	}
	return list
}

func ids(with object) (list []string) {
	for _, item := range with["items"].([]any) {
		list = append(list, text(item.(object), "id"))
	}
	return list
}

// named wraps the values of results in objects with the API's name for them.
func named[T any](results []tickwheel.Result[T], err error, name string) (any, error) {
	list := []any{}
	for _, result := range results {
		if result.Err != nil {
			list = append(list, object{"error": result.Err})
		} else {
			list = append(list, object{"ok": object{name: result.OK}})
		}
	}
	return object{"results": list}, err
}

func (r *runner) perform(ctx context.Context, operation string, with object) (any, error) {
	for _, group := range []func(context.Context, string, object) (any, error){
		r.onJobs, r.onLeases, r.onQueues, r.onGroups, r.onTargets, r.onInsight, r.onServer,
	} {
		answer, err := group(ctx, operation, with)
		if answer != nil || err != nil {
			return answer, err
		}
	}
	return nil, fmt.Errorf("unknown operation %q", operation)
}

func (r *runner) onJobs(ctx context.Context, operation string, with object) (any, error) {
	c, id, queue, key := r.client, text(with, "id"), text(with, "queue"), text(with, "key")
	switch operation {
	case "put":
		job, err := newJob(with)
		if err != nil {
			return nil, err
		}
		if traceparent := text(with, "traceparent"); traceparent != "" {
			ctx = tickwheel.WithTraceparent(ctx, traceparent)
		}
		return c.Put(ctx, job)
	case "put_many", "put_together":
		return r.putAll(ctx, operation == "put_together", with)
	case "import_many":
		list, err := imports(with)
		if err != nil {
			return nil, err
		}
		results, err := c.ImportMany(ctx, list)
		return named(results, err, "id")
	case "find_ids":
		ids, err := c.FindIDs(ctx, text(with, "short"))
		return object{"ids": ids}, err
	case "get":
		if id == "" {
			return c.GetByKey(ctx, queue, key)
		}
		return c.Get(ctx, id)
	case "cancel":
		if id == "" {
			was, err := c.CancelByKey(ctx, queue, key)
			return object{"was": was}, err
		}
		was, err := c.Cancel(ctx, id)
		return object{"was": was}, err
	case "cancel_many":
		results, err := c.CancelMany(ctx, ids(with))
		return named(results, err, "was")
	case "reschedule":
		when, err := when(with)
		if err != nil {
			return nil, err
		}
		if id == "" {
			due, err := c.RescheduleByKey(ctx, queue, key, when)
			return object{"due_ms": due}, err
		}
		due, err := c.Reschedule(ctx, id, when)
		return object{"due_ms": due}, err
	case "reschedule_many":
		var list []tickwheel.RescheduleItem
		for _, item := range with["items"].([]any) {
			when, err := when(item.(object))
			if err != nil {
				return nil, err
			}
			list = append(list, tickwheel.RescheduleItem{ID: text(item.(object), "id"), When: when})
		}
		results, err := c.RescheduleMany(ctx, list)
		return named(results, err, "due_ms")
	case "list", "list_all":
		return r.list(ctx, operation == "list_all", with)
	}
	return nil, nil
}

func imports(with object) (list []tickwheel.ImportedJob, err error) {
	for _, entry := range with["items"].([]any) {
		item := entry.(object)
		finished, _ := item["finished"].(object)
		job, jobErr := newJob(item["put"].(object))
		created, createdErr := instant(item, "created")
		at, atErr := instant(finished, "at")
		err = errors.Join(err, jobErr, createdErr, atErr)
		list = append(list, tickwheel.ImportedJob{
			Job: job, Created: created, Attempts: integer(item, "attempts"), LastError: text(item, "last_error"),
			Finished: tickwheel.State(text(finished, "state")), FinishedAt: at,
		})
	}
	return list, err
}

func (r *runner) onGroups(ctx context.Context, operation string, with object) (any, error) {
	c, queue, group := r.client, text(with, "queue"), text(with, "group")
	switch operation {
	case "groups":
		return c.Groups(ctx, queue, tickwheel.GroupOptions{
			Prefix: text(with, "prefix"), Limit: integer(with, "limit"), Page: text(with, "page"),
		})
	case "patch_group":
		if pacing, given := with["pacing"]; given {
			return c.PaceGroup(ctx, queue, group, convert[tickwheel.Pacing](pacing))
		}
		if with["paused"] == true {
			return c.PauseGroup(ctx, queue, group)
		}
		return c.ResumeGroup(ctx, queue, group)
	}
	return nil, nil
}

func (r *runner) onTargets(ctx context.Context, operation string, with object) (any, error) {
	c, name := r.client, text(with, "name")
	switch operation {
	case "targets":
		targets, err := c.Targets(ctx)
		return object{"targets": targets}, err
	case "target":
		return c.Target(ctx, name)
	case "put_target":
		return c.PutTarget(ctx, name, *convert[tickwheel.TargetSettings](with["settings"]))
	case "patch_target":
		return c.PatchTarget(ctx, name, *convert[tickwheel.TargetSettings](with["settings"]))
	case "remove_target":
		return c.RemoveTarget(ctx, name)
	case "pause_target":
		return c.PauseTarget(ctx, name)
	case "resume_target":
		return c.ResumeTarget(ctx, name)
	case "rotate_target":
		return c.RotateTarget(ctx, name, shortDuration(with, "keep_old"))
	case "test_target":
		return c.TestTarget(ctx, name)
	}
	return nil, nil
}

func (r *runner) putAll(ctx context.Context, together bool, with object) (any, error) {
	var jobs []tickwheel.NewJob
	for _, item := range with["items"].([]any) {
		job, err := newJob(item.(object))
		if err != nil {
			return nil, err
		}
		jobs = append(jobs, job)
	}
	if !together {
		results, err := r.client.PutMany(ctx, jobs, text(with, "idempotency_key"))
		return object{"results": results}, err
	}
	results := make([]tickwheel.Result[tickwheel.PutResult], len(jobs))
	var group sync.WaitGroup
	for i, job := range jobs {
		group.Add(1)
		go func() {
			defer group.Done()
			result, err := r.client.Put(ctx, job)
			if err == nil {
				results[i].OK = &result
			} else if !errors.As(err, &results[i].Err) {
				r.t.Error(err)
			}
		}()
	}
	group.Wait()
	return object{"results": results}, nil
}

func (r *runner) list(ctx context.Context, all bool, with object) (any, error) {
	from, err := instant(with, "due_from")
	to, toErr := instant(with, "due_to")
	if err := errors.Join(err, toErr); err != nil {
		return nil, err
	}
	options := tickwheel.ListOptions{
		State: tickwheel.State(text(with, "state")), DueFrom: from, DueTo: to,
		Key: text(with, "key"), KeyPrefix: text(with, "key_prefix"), Error: text(with, "error"),
		ErrorGroup: text(with, "error_group"), Limit: integer(with, "limit"), Page: text(with, "page"),
	}
	if !all {
		return r.client.List(ctx, text(with, "queue"), options)
	}
	jobs := []tickwheel.Job{}
	for job, err := range r.client.ListAll(ctx, text(with, "queue"), options) {
		if err != nil {
			return nil, err
		}
		jobs = append(jobs, job)
	}
	return object{"jobs": jobs}, nil
}

func (r *runner) onLeases(ctx context.Context, operation string, with object) (any, error) {
	c, id, token := r.client, text(with, "id"), text(with, "token")
	switch operation {
	case "reserve":
		deliveries, err := c.Reserve(ctx, text(with, "queue"), tickwheel.ReserveOptions{
			Limit: integer(with, "limit"), Lease: shortDuration(with, "lease"), Wait: shortDuration(with, "wait"),
			Worker: text(with, "worker"),
		})
		return object{"deliveries": deliveries}, err
	case "ack":
		return object{"state": "done"}, c.Ack(ctx, id, token, with["result"])
	case "fail":
		dead, _ := with["dead"].(bool)
		state, err := c.Fail(ctx, id, token, tickwheel.Failure{
			Error: text(with, "error"), Delay: optionalDuration(with, "delay"), Dead: dead,
		})
		return object{"state": state}, err
	case "extend":
		until, err := c.Extend(ctx, id, token, shortDuration(with, "lease"))
		return object{"until_ms": until}, err
	case "release":
		return object{"released": true}, c.Release(ctx, id, token, optionalDuration(with, "delay"))
	case "kick":
		return object{"state": "ready"}, c.Kick(ctx, id)
	case "ack_many":
		results, err := c.AckMany(ctx, leaseItems(with))
		return named(results, err, "state")
	case "fail_many":
		results, err := c.FailMany(ctx, leaseItems(with))
		return named(results, err, "state")
	case "extend_many":
		results, err := c.ExtendMany(ctx, leaseItems(with))
		return named(results, err, "until_ms")
	case "release_many":
		results, err := c.ReleaseMany(ctx, leaseItems(with))
		return named(results, err, "released")
	case "kick_many":
		results, err := c.KickMany(ctx, ids(with))
		return named(results, err, "state")
	}
	return nil, nil
}

func counted(count int64, err error) (any, error) { return object{"count": count}, err }

func (r *runner) onQueues(ctx context.Context, operation string, with object) (any, error) {
	c, queue, name := r.client, text(with, "queue"), text(with, "name")
	switch operation {
	case "queues":
		queues, err := c.Queues(ctx)
		return object{"queues": queues}, err
	case "queue":
		return c.Queue(ctx, queue)
	case "put_settings":
		return c.PutSettings(ctx, queue, *convert[tickwheel.QueueSettings](with["settings"]))
	case "patch_settings":
		return c.PatchSettings(ctx, queue, *convert[tickwheel.QueueSettings](with["settings"]))
	case "pause_queue":
		return c.PauseQueue(ctx, queue)
	case "resume_queue":
		return c.ResumeQueue(ctx, queue)
	case "kick_queue":
		return counted(c.KickQueue(ctx, queue, integer(with, "limit")))
	case "purge_queue":
		return counted(c.PurgeQueue(ctx, queue, tickwheel.State(text(with, "state")), shortDuration(with, "older_than")))
	case "drain_queue":
		return counted(c.DrainQueue(ctx, queue))
	case "remove_queue":
		force, _ := with["force"].(bool)
		return counted(c.RemoveQueue(ctx, queue, force))
	case "put_schedule":
		schedule, err := newSchedule(with)
		if err != nil {
			return nil, err
		}
		return c.PutSchedule(ctx, name, schedule)
	case "schedules":
		schedules, err := c.Schedules(ctx)
		return object{"schedules": schedules}, err
	case "schedule":
		return c.Schedule(ctx, name)
	case "pause_schedule":
		return c.PauseSchedule(ctx, name)
	case "resume_schedule":
		return c.ResumeSchedule(ctx, name)
	case "remove_schedule":
		return c.RemoveSchedule(ctx, name)
	case "next_runs":
		runs, err := c.NextRuns(ctx, name, integer(with, "n"))
		next := []any{}
		for _, run := range runs {
			next = append(next, object{"due_ms": run})
		}
		return object{"next": next}, err
	}
	return nil, nil
}

func (r *runner) onInsight(ctx context.Context, operation string, with object) (any, error) {
	c, queue := r.client, text(with, "queue")
	switch operation {
	case "errors":
		return c.Errors(ctx, queue, integer(with, "limit"))
	case "change_matching", "change_all":
		change, err := bulkChange(with)
		if err != nil {
			return nil, err
		}
		if operation == "change_all" {
			return c.ChangeAllMatching(ctx, queue, change)
		}
		return c.ChangeMatching(ctx, queue, change)
	case "overview":
		return c.Overview(ctx)
	case "history":
		return c.History(ctx, tickwheel.HistoryWindow(text(with, "window")), queue)
	case "wheel":
		return c.Wheel(ctx)
	}
	return nil, nil
}

func bulkChange(with object) (tickwheel.BulkChange, error) {
	filter, _ := with["filter"].(object)
	from, err := instant(filter, "due_from")
	to, toErr := instant(filter, "due_to")
	dryRun, _ := with["dry_run"].(bool)
	change := tickwheel.BulkChange{
		Action: tickwheel.BulkAction(text(with, "action")), DryRun: dryRun, Limit: integer(with, "limit"),
		Cursor: text(with, "cursor"), Filter: tickwheel.JobFilter{
			State: tickwheel.State(text(filter, "state")), Error: text(filter, "error"),
			ErrorGroup: text(filter, "error_group"), Key: text(filter, "key"),
			KeyPrefix: text(filter, "key_prefix"), DueFrom: from, DueTo: to,
		},
	}
	if with["delay"] != nil || with["due"] != nil {
		due, dueErr := when(with)
		change.When, err = &due, errors.Join(err, dueErr)
	}
	return change, errors.Join(err, toErr)
}

func (r *runner) onServer(ctx context.Context, operation string, with object) (any, error) {
	c := r.client
	switch operation {
	case "stats":
		if with["since"] != nil {
			return c.StatsSince(ctx, duration(with["since"]))
		}
		return c.Stats(ctx)
	case "ready":
		return c.Ready(ctx)
	case "health":
		return c.Health(ctx)
	case "clock":
		return c.Clock(ctx)
	case "advance":
		return c.Advance(ctx, duration(with["by"]))
	case "work":
		return r.work(ctx, with)
	case "follow":
		if with["targets"] == true {
			states, err := c.TargetEvents(context.Background())
			if err != nil {
				return nil, err
			}
			r.states = states
			r.t.Cleanup(states.Close)
			return object{}, nil
		}
		filter := tickwheel.EventFilter{
			State: tickwheel.State(text(with, "state")), Key: text(with, "key"),
			KeyPrefix: text(with, "key_prefix"), Error: text(with, "error"),
		}
		if names := text(with, "event"); names != "" {
			filter.Events = strings.Split(names, ",")
		}
		stream, err := c.EventsMatching(context.Background(), text(with, "queue"), filter)
		if err != nil {
			return nil, err
		}
		r.stream = stream
		r.t.Cleanup(stream.Close)
		return object{}, nil
	case "events":
		return r.events(ctx, integer(with, "count"))
	case "restart":
		kill, _ := with["kill"].(bool)
		r.server.Restart(kill)
		return object{}, nil
	case "verify_webhook":
		return verifyWebhook(with)
	}
	return nil, nil
}

// events waits for the next events of the open stream.
func (r *runner) events(ctx context.Context, count int) (any, error) {
	events := []any{}
	if r.states != nil {
		defer context.AfterFunc(ctx, r.states.Close)()
	} else {
		defer context.AfterFunc(ctx, r.stream.Close)()
	}
	for len(events) < count {
		if r.states != nil {
			event, err := r.states.Next()
			if err != nil {
				return nil, err
			}
			events = append(events, event)
			continue
		}
		event, err := r.stream.Next()
		if err != nil {
			return nil, err
		}
		if event.Event != "reset" {
			events = append(events, event)
		}
	}
	return object{"events": events}, nil
}
